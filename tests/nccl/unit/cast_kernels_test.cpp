// SPDX-License-Identifier: Apache-2.0
// The kernels that convert types on GPUs: the fake driver runs their PTX, and the results are
// compared with the conversions on the host.
#include "collective/nccl/cast_kernels.hpp"

#include "collective/kernels/kernels.hpp"
#include "collective/nccl/gpu_queue.hpp"
#include "nccl/fakes/cuda/ptx_forms.hpp"
#include "nccl/unit/gpu_world.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace muster::testing {
namespace {

using collective::DeviceQueue;

constexpr std::size_t kAround = 64;  // bytes before and after, which must stay unchanged
constexpr std::byte kUntouched{0x5a};

// Input and output of a conversion on a GPU, and the bytes around the result.
class Caster {
 public:
  Caster() { REQUIRE(queue_->load_casts().has_value()); }

  std::vector<std::byte> cast(bool narrows, DType wire, const std::vector<std::byte>& from) {
    const std::size_t count = from.size() / (narrows ? 4 : 2);
    const std::size_t out = count * (narrows ? 2 : 4);
    DeviceMemory source(0, std::max<std::size_t>(from.size(), 1));
    DeviceMemory target(0, out + 2 * kAround);
    if (!from.empty()) {
      source.upload(from);
    }
    target.upload(std::vector<std::byte>(out + 2 * kAround, kUntouched));
    void* const place = static_cast<std::byte*>(target.get()) + kAround;
    void* const stream = queue_->own_stream();
    const auto done = narrows ? queue_->narrow(wire, source.get(), place, count, stream)
                              : queue_->widen(wire, source.get(), place, count, stream);
    REQUIRE(done.has_value());
    REQUIRE(queue_->settle(stream).has_value());
    const auto all = target.download();
    const auto begin = all.begin() + kAround;
    const auto end = begin + static_cast<std::ptrdiff_t>(out);
    CHECK(std::all_of(all.begin(), begin, [](std::byte b) { return b == kUntouched; }));
    CHECK(std::all_of(end, all.end(), [](std::byte b) { return b == kUntouched; }));
    return {begin, end};
  }

 private:
  std::unique_ptr<DeviceQueue> queue_ =
      *nccl::GpuQueue::create(*nccl::GpuDevice::open(fake_driver(), 0));
};

template <class To, class From>
std::vector<To> seen_as(const std::vector<From>& values) {
  std::vector<To> out(values.size() * sizeof(From) / sizeof(To));
  if (!values.empty()) {
    std::memcpy(out.data(), values.data(), values.size() * sizeof(From));
  }
  return out;
}

std::vector<float> widened(DType wire, const std::vector<std::uint16_t>& values) {
  std::vector<float> out(values.size());
  collective::widen(wire, values.data(), out.data(), out.size());
  return out;
}

// Numbers of every magnitude, halfway cases, overflows, infinities and NaNs.
std::vector<float> awkward_floats() {
  std::vector<float> out;
  for (std::uint32_t upper = 0; upper < 0x10000; upper += 3) {
    for (const std::uint32_t lower : {0U, 1U, 0x0fffU, 0x1000U, 0x7fffU, 0x8000U, 0x8001U}) {
      out.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  std::minstd_rand random(7);
  for (int i = 0; i < 10000; ++i) {  // f16 rounds lower bits, so it needs numbers in its own range
    out.push_back(std::ldexp(static_cast<float>(random()) / 4e9F, i % 44 - 26));
  }
  return out;
}

TEST_CASE("casts on GPUs: narrows to the same bits as on the host") {
  Caster gpu;
  const auto from = awkward_floats();
  for (const DType wire : {DType::bf16, DType::f16}) {
    std::vector<std::uint16_t> expected(from.size());
    collective::narrow(wire, from.data(), expected.data(), from.size());
    const auto have = seen_as<std::uint16_t>(gpu.cast(true, wire, seen_as<std::byte>(from)));
    const auto wide = widened(wire, have);
    std::size_t others = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const bool same = std::isnan(from[i]) ? std::isnan(wide[i]) : have[i] == expected[i];
      others += same ? 0 : 1;
    }
    CHECK(others == 0);
  }
}

TEST_CASE("casts on GPUs: widens every bf16 and f16 to its value") {
  Caster gpu;
  std::vector<std::uint16_t> from;
  from.reserve(0x10000);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    from.push_back(static_cast<std::uint16_t>(bits));
  }
  for (const DType wire : {DType::bf16, DType::f16}) {
    const auto expected = widened(wire, from);
    const auto have = seen_as<float>(gpu.cast(false, wire, seen_as<std::byte>(from)));
    std::size_t others = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const bool same = std::isnan(expected[i]) ? std::isnan(have[i]) : have[i] == expected[i];
      others += same ? 0 : 1;
    }
    CHECK(others == 0);
  }
}

std::vector<float> counted(std::size_t count) {
  std::vector<float> out;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<float>(i % 251));
  }
  return out;
}

TEST_CASE("casts on GPUs: any number of elements, and no write outside them") {
  Caster gpu;
  for (const std::size_t count : {0UL, 1UL, 2UL, 3UL, 4UL, 5UL, 1023UL, 1024UL, 4099UL}) {
    const auto from = counted(count);
    for (const DType wire : {DType::bf16, DType::f16}) {
      const auto there = gpu.cast(true, wire, seen_as<std::byte>(from));
      CHECK(seen_as<float>(gpu.cast(false, wire, there)) == from);
    }
  }
}

TEST_CASE("casts on GPUs: a thread processes several elements if there are more of them",
          "[slow]") {
  Caster gpu;
  const std::size_t at_once = std::size_t{nccl::kCastMaxBlocks} * nccl::kCastThreads;
  const auto from = counted(nccl::kCastQuad * at_once + 1030);
  const auto there = seen_as<std::uint16_t>(gpu.cast(true, DType::bf16, seen_as<std::byte>(from)));
  CHECK(widened(DType::bf16, there) == from);
}

// Therefore ptxas_test.py covers everything that the fake accepts, and the results above cover
// everything that it runs.
TEST_CASE("casts on GPUs: together they use every instruction that the fake driver supports") {
  const std::string text = nccl::cast_kernels();
  for (const auto& form : fake::all_forms()) {
    const std::string start = "\n  " + std::string(form.name);
    CAPTURE(form.name);
    CHECK((text.contains(start + " ") || text.contains(start + ";")));
  }
}

TEST_CASE("casts on GPUs: an error before they are loaded") {
  const auto queue = *nccl::GpuQueue::create(*nccl::GpuDevice::open(fake_driver(), 0));
  const auto done = queue->narrow(DType::bf16, nullptr, nullptr, 4, queue->own_stream());
  REQUIRE(!done.has_value());
  CHECK(done.error().code == collective::Errc::invalid_state);
}

}  // namespace
}  // namespace muster::testing
