// SPDX-License-Identifier: Apache-2.0
// Measurements: the overhead of our call over the bare one, and how much of a sum overlaps with
// other work on the GPU. They are neither pass nor fail.
#include "base/clock.hpp"
#include "collective/gradient_sync.hpp"
#include "collective/nccl/nccl_core.hpp"
#include "nccl/gpu/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace muster::gpu_check {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(30);
constexpr int kRounds = 5;
constexpr int kCalls = 200;

double us(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

double median(std::array<double, kRounds> values) {
  std::ranges::sort(values);
  return values[kRounds / 2];
}

// NCCL without our library: its own communicator, the same kind of stream.
class Bare {
 public:
  explicit Bare(Rank& rank) : rank_(rank), call_(rank.library->call) {
    const nccl::CurrentDevice current(*rank.device);
    stream_ = must(nccl::GpuStream::create(rank.device));
    const auto id = must(nccl::agree_on_id(rank.context(7, rank.size()), *rank.library));
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

  // Microseconds per call.
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
  // The watchdog of the other communicator occasionally calls NCCL.
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

// Microseconds of the three driver calls that order an operation between the caller's work and
// ours: the minimum overhead of our call over a bare one.
double run_ordering(Rank& rank) {
  const nccl::CurrentDevice current(*rank.device);
  const auto stream = must(nccl::GpuStream::create(rank.device));
  const auto events = std::make_shared<nccl::EventPool>(rank.device);
  const auto ready = must(events->take());
  const auto end = must(events->take());
  const TimePoint from = steady_now();
  for (int i = 0; i < kCalls; ++i) {
    must(ready.record(nullptr));
    must(ready.hold(stream->get()));
    must(end.record(stream->get()));
  }
  const double each = us(steady_now() - from) / kCalls;
  rank.driver->call.stream_synchronize(stream->get());
  return each;
}

double run_ours(nccl::NcclCommunicator& communicator, void* data, std::size_t count) {
  std::shared_ptr<collective::Pending> last;
  Request what = request(Kind::all_reduce, DType::f32, count, kTimeout);
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
  auto communicator = must(rank.join(0, rank.size(), kTimeout));
  Bare bare(rank);
  const Memory memory(rank, 4096);
  const Memory other(rank, 4096);
  std::array<double, kRounds> ours{};
  std::array<double, kRounds> theirs{};
  std::array<double, kRounds> ordering{};
  run_ours(*communicator, memory.get(), 1024);
  bare.run(other.get(), 1024);
  for (std::size_t round = 0; round < kRounds; ++round) {
    ours[round] = run_ours(*communicator, memory.get(), 1024);
    theirs[round] = bare.run(other.get(), 1024);
    ordering[round] = run_ordering(rank);
  }
  if (rank.rank() == 0) {
    row(fmt::format("{} rank(s): our call over the bare one, 4 KiB", rank.size()),
        true,
        fmt::format("{:.2f} µs over {:.2f} µs: {:+.2f} µs (goal: 2 µs), of it {:.2f} µs to order "
                    "streams",
                    median(ours),
                    median(theirs),
                    median(ours) - median(theirs),
                    median(ordering)));
  }
}

namespace {

// Gradients, each in its own bucket. Copies on the caller's stream replace the part of the backward
// pass that computes each gradient.
class Step {
 public:
  Step(Rank& rank, std::optional<DType> wire)
      : rank_(rank),
        bytes_(bytes_of(rank)),
        current_(*rank.device),
        comm_(must(collective::Communicator::create(rank.store, rank.place.membership))),
        sync_(comm_,
              {.buckets = {.first = bytes_, .cap = bytes_},
               .wire = wire,
               .reorder = false,
               .device = 0}),
        stream_(must(nccl::GpuStream::create(rank.device))),
        from_(rank, bytes_),
        to_(rank, bytes_) {
    for (int id = 0; id < kGradients; ++id) {
      must(sync_.add("g" + std::to_string(id), DType::f32, bytes_ / sizeof(float)));
    }
    must(sync_.finalize());
    must(sync_.zero(stream_->get()));
  }

  // Microseconds of a step with only the backward pass, only the sums, or both.
  double run(bool backward, bool sums) {
    rank_.driver->call.stream_synchronize(stream_->get());
    must(comm_.barrier());
    const TimePoint start = steady_now();
    must(sync_.begin(sums));
    for (int id = kGradients - 1; id >= 0; --id) {
      for (int i = 0; i < 4 && backward; ++i) {
        rank_.driver->call.copy_on_device_async(to_.place(), from_.place(), bytes_, stream_->get());
      }
      must(sync_.mark_ready(id, stream_->get()));
    }
    must(sync_.wait_stream(stream_->get()));
    rank_.driver->call.stream_synchronize(stream_->get());
    return us(steady_now() - start);
  }

  static constexpr int kGradients = 8;

  static std::size_t bytes_of(const Rank& rank) { return rank.over_fakes ? 64 << 10 : 8 << 20; }

 private:
  Rank& rank_;
  std::size_t bytes_;
  nccl::CurrentDevice current_;
  collective::Communicator comm_;
  collective::GradientSync sync_;
  std::unique_ptr<nccl::GpuStream> stream_;
  Memory from_;
  Memory to_;
};

void run_overlap(Rank& rank, std::optional<DType> wire) {
  Step step(rank, wire);
  std::array<double, kRounds> backward{};
  std::array<double, kRounds> sums{};
  std::array<double, kRounds> both{};
  step.run(true, true);
  for (std::size_t round = 0; round < kRounds; ++round) {
    backward[round] = step.run(true, false);
    sums[round] = step.run(false, true);
    both[round] = step.run(true, true);
  }
  const double exposed = std::max(0.0, median(both) - median(backward)) / median(sums);
  if (rank.rank() == 0) {
    row(fmt::format("{} rank(s): GradientSync, {} buckets of {} KiB{} beside copies",
                    rank.size(),
                    Step::kGradients,
                    Step::bytes_of(rank) >> 10,
                    wire ? fmt::format(" as {}", name_of(*wire)) : ""),
        true,
        fmt::format("copies {:.0f} µs, sums {:.0f} µs, both {:.0f} µs: {:.0f} % exposed",
                    median(backward),
                    median(sums),
                    median(both),
                    100 * exposed));
  }
}

}  // namespace

void check_overlap(Rank& rank) {
  run_overlap(rank, std::nullopt);
  run_overlap(rank, DType::bf16);
}

}  // namespace muster::gpu_check
