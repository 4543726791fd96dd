// SPDX-License-Identifier: Apache-2.0
// Figures: what our call costs over the bare one, and how much of a sum is hidden behind other work
// of the GPU. They are no pass or fail.
#include "base/clock.hpp"
#include "collective/nccl/nccl_core.hpp"
#include "gpu/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace muster::gpu_check {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);
constexpr int kRounds = 5;
constexpr int kCalls = 200;

double us(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

double median(std::array<double, kRounds> values) {
  std::ranges::sort(values);
  return values[kRounds / 2];
}

// NCCL without us: a communicator of its own, the same kind of stream.
class Bare {
 public:
  explicit Bare(Rank& rank) : rank_(rank), call_(rank.library->call) {
    const nccl::CurrentDevice current(*rank.device);
    stream_ = must(nccl::GpuStream::create(rank.device));
    const auto id = must(nccl::agree_on_id(rank.meeting(7, rank.size()), *rank.library));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    alone([&] { return call_.init_rank(&comm_, rank.size(), id, rank.rank(), &config); });
    settle();
  }

  ~Bare() {
    const nccl::CurrentDevice current(*rank_.device);
    alone([&] { return call_.abort(comm_); });
  }

  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  // Microseconds of one call.
  double run(void* data, std::size_t count) {
    const nccl::CurrentDevice current(*rank_.device);
    const TimePoint from = steady_now();
    for (int i = 0; i < kCalls; ++i) {
      const auto result = alone([&] {
        return call_.all_reduce(data, data, count, ncclFloat32, ncclSum, comm_, stream_->get());
      });
      if (result == ncclInProgress) {
        settle();
      }
    }
    const double each = us(steady_now() - from) / kCalls;
    rank_.driver->call.stream_synchronize(stream_->get());
    return each;
  }

 private:
  // The watchdog of the other communicator is inside NCCL now and then.
  template <class Call>
  ncclResult_t alone(Call call) {
    const std::scoped_lock lock(rank_.device->nccl_lock());
    return call();
  }

  void settle() {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      alone([&] { return call_.get_async_error(comm_, &state); });
    }
    if (state != ncclSuccess) {
      give_up(call_.get_error_string(state));
    }
  }

  Rank& rank_;
  const nccl::NcclTable& call_;
  std::unique_ptr<nccl::GpuStream> stream_;
  ncclComm_t comm_ = nullptr;
};

double run_ours(nccl::NcclCommunicator& communicator, void* data, std::size_t count) {
  std::shared_ptr<collective::Pending> last;
  Request what = request(Kind::all_reduce, DType::f32, count, kPatience);
  what.in = data;
  what.out = data;
  const TimePoint from = steady_now();
  for (int i = 0; i < kCalls; ++i) {
    last = must(communicator.start(what));
  }
  const double each = us(steady_now() - from) / kCalls;
  must(last->wait(Duration::zero()));
  return each;
}

}  // namespace

void check_overhead(Rank& rank) {
  auto communicator = must(rank.join(0, rank.size(), kPatience));
  Bare bare(rank);
  const Memory memory(rank, 4096);
  const Memory other(rank, 4096);
  std::array<double, kRounds> ours{};
  std::array<double, kRounds> theirs{};
  run_ours(*communicator, memory.get(), 1024);
  bare.run(other.get(), 1024);
  for (std::size_t round = 0; round < kRounds; ++round) {
    ours[round] = run_ours(*communicator, memory.get(), 1024);
    theirs[round] = bare.run(other.get(), 1024);
  }
  if (rank.rank() == 0) {
    row(fmt::format("{} rank(s): our call over the bare one, 4 KiB", rank.size()),
        true,
        fmt::format("{:.2f} µs over {:.2f} µs: {:+.2f} µs (goal: 2 µs)",
                    median(ours),
                    median(theirs),
                    median(ours) - median(theirs)));
  }
}

// Copies on the caller's stream stand for a backward pass; a sum of another buffer beside them.
void check_overlap(Rank& rank) {
  constexpr std::size_t kBytes = 64 << 20;
  auto communicator = must(rank.join(0, rank.size(), kPatience));
  const nccl::CurrentDevice current(*rank.device);
  const auto stream = must(nccl::GpuStream::create(rank.device));
  const Memory from(rank, kBytes);
  const Memory to(rank, kBytes);
  const Memory in(rank, kBytes);
  const Memory out(rank, kBytes);
  const auto work_for = [&](bool compute, bool sum) {
    rank.driver->call.stream_synchronize(stream->get());
    const TimePoint start = steady_now();
    std::shared_ptr<collective::Pending> pending;
    if (sum) {
      Request what = request(Kind::all_reduce, DType::f32, kBytes / 4, kPatience);
      what.in = in.get();
      what.out = out.get();
      what.stream = stream->get();
      pending = must(communicator->start(what));
    }
    for (int i = 0; i < 8 && compute; ++i) {
      rank.driver->call.copy_on_device_async(to.place(), from.place(), kBytes, stream->get());
    }
    if (pending) {
      must(pending->wait_stream(stream->get()));
    }
    rank.driver->call.stream_synchronize(stream->get());
    return us(steady_now() - start);
  };
  std::array<double, kRounds> compute{};
  std::array<double, kRounds> sum{};
  std::array<double, kRounds> both{};
  work_for(true, true);
  for (std::size_t round = 0; round < kRounds; ++round) {
    compute[round] = work_for(true, false);
    sum[round] = work_for(false, true);
    both[round] = work_for(true, true);
  }
  const double exposed = std::max(0.0, median(both) - median(compute)) / median(sum);
  if (rank.rank() == 0) {
    row(fmt::format("{} rank(s): a sum of 64 MiB beside copies", rank.size()),
        true,
        fmt::format("copies {:.0f} µs, sum {:.0f} µs, both {:.0f} µs: {:.0f} % exposed",
                    median(compute),
                    median(sum),
                    median(both),
                    100 * exposed));
  }
}

}  // namespace muster::gpu_check
