// SPDX-License-Identifier: Apache-2.0
// The conversions of gradients that are sent as bf16 or f16: the same bits as on the host, and
// their memory bandwidth on the GPU compared with a plain copy.
#include "base/clock.hpp"
#include "collective/kernels/kernels.hpp"
#include "collective/nccl/gpu_queue.hpp"
#include "nccl/gpu/rank.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace muster::gpu_check {
namespace {

using collective::DeviceQueue;

constexpr int kRepeats = 20;

std::vector<std::byte> bytes_of(const void* data, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  std::memcpy(out.data(), data, bytes);
  return out;
}

std::vector<float> widened(DType wire, const std::vector<std::byte>& narrow) {
  std::vector<float> out(narrow.size() / 2);
  collective::widen(wire, narrow.data(), out.data(), out.size());
  return out;
}

// Equal bits, or both NaN.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) &&
        !(std::isnan(a[i]) && std::isnan(b[i]))) {
      return false;
    }
  }
  return true;
}

class Casts {
 public:
  explicit Casts(Rank& rank)
      : queue_(must(nccl::GpuQueue::create(rank.device))),
        count_(count_for(rank)),
        wide_(rank, 4 * count_),
        narrow_(rank, 2 * count_),
        other_(rank, 4 * count_) {
    must(queue_->load_casts());
  }

  // Random bits; the count is not a multiple of four.
  void compare(DType wire) {
    std::mt19937 random(5);
    std::vector<float> from(std::min(count_, std::size_t{1} << 20) - 1);
    for (float& value : from) {
      value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    }
    wide_.upload(bytes_of(from.data(), 4 * from.size()));
    must(queue_->narrow(wire, wide_.get(), narrow_.get(), from.size(), stream()));
    must(queue_->widen(wire, narrow_.get(), other_.get(), from.size(), stream()));
    must(queue_->settle(stream()));
    std::vector<std::byte> expected(2 * from.size());
    collective::narrow(wire, from.data(), expected.data(), from.size());
    const auto there = widened(wire, narrow_.download(expected.size()));
    const auto back = other_.download(4 * from.size());
    std::vector<float> again(from.size());
    std::memcpy(again.data(), back.data(), back.size());
    if (!same(there, widened(wire, expected)) || !same(again, there)) {
      give_up(fmt::format("{} on the GPU has other bits than on the host", name_of(wire)));
    }
  }

  void measure(DType wire) {
    const double copy =
        rate(8, [this] { return queue_->copy(other_.get(), wide_.get(), 4 * count_, stream()); });
    const double narrow =
        rate(6, [&] { return queue_->narrow(wire, wide_.get(), narrow_.get(), count_, stream()); });
    const double widen =
        rate(6, [&] { return queue_->widen(wire, narrow_.get(), other_.get(), count_, stream()); });
    row(fmt::format("f32 to {} and back, {} KiB", name_of(wire), 4 * count_ >> 10),
        false,
        fmt::format("the bits of the host; {:.0f} and {:.0f} GB/s of memory, a copy {:.0f}",
                    narrow,
                    widen,
                    copy));
  }

 private:
  static std::size_t count_for(const Rank& rank) {
    return rank.over_fakes ? std::size_t{1} << 16 : std::size_t{1} << 26;
  }

  [[nodiscard]] void* stream() const { return queue_->own_stream(); }

  // GB/s, for this number of bytes per element.
  template <class Body>
  double rate(int bytes, const Body& body) {
    must(body());
    must(queue_->settle(stream()));
    const TimePoint from = steady_now();
    for (int i = 0; i < kRepeats; ++i) {
      must(body());
    }
    must(queue_->settle(stream()));
    const double seconds = std::chrono::duration<double>(steady_now() - from).count();
    return kRepeats * static_cast<double>(bytes) * static_cast<double>(count_) / seconds / 1e9;
  }

  std::unique_ptr<DeviceQueue> queue_;
  std::size_t count_;
  Memory wide_;
  Memory narrow_;
  Memory other_;
};

}  // namespace

void check_casts(Rank& rank) {
  Casts casts(rank);
  for (const DType wire : {DType::bf16, DType::f16}) {
    casts.compare(wire);
    casts.measure(wire);
  }
}

}  // namespace muster::gpu_check
