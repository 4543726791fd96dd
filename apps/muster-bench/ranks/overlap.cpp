// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/ranks/cell.hpp"
#include "apps/muster-bench/ranks/ranks.hpp"
#include "base/clock.hpp"
#include "collective/gradient_sync.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <thread>

namespace muster::bench {
namespace {

using collective::Buffer;
using collective::Communicator;
using collective::DType;
using collective::GradientSync;
using collective::Op;

constexpr int kTensors = 50;
constexpr std::size_t kElements = 131'072;  // per tensor, 25 MiB in total
constexpr int kSteps = 15;
constexpr int kBackwardOverSums = 2;

double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// Keeps a CPU busy with this number of work steps.
void work(long long steps) {
  double x = 1;
  for (long long i = 0; i < steps; ++i) {
    x = x * 0.999999 + 1e-6;
    asm volatile("" : "+x"(x));
  }
}

// The number of work steps that take `wanted_us` while all ranks do the same.
long long steps_for(Communicator& comm, double wanted_us) {
  constexpr long long kProbe = 2'000'000;
  static_cast<void>(comm.barrier());
  const auto begin = steady_now();
  work(kProbe);
  double spent = microseconds(steady_now() - begin);
  const Buffer buffer{&spent, 1, DType::f64};
  static_cast<void>(comm.all_reduce(buffer, buffer, Op::max));
  return static_cast<long long>(wanted_us / spent * kProbe);
}

// One step: each gradient becomes ready after its part of the backward pass. Returns the slowest
// rank's time in microseconds; negative after an error.
double step(Communicator& comm, GradientSync* sync, const std::function<void(int)>& part) {
  static_cast<void>(comm.barrier());
  const auto begin = steady_now();
  bool good = sync == nullptr || sync->begin().has_value();
  for (int i = kTensors - 1; i >= 0; --i) {
    part(kTensors - i);
    good = good && (sync == nullptr || sync->mark_ready(i).has_value());
  }
  good = good && (sync == nullptr || sync->wait().has_value());
  double spent = good ? microseconds(steady_now() - begin) : -1;
  const Buffer buffer{&spent, 1, DType::f64};
  static_cast<void>(comm.all_reduce(buffer, buffer, good ? Op::max : Op::min));
  return spent;
}

double median_step(Communicator& comm,
                   GradientSync* sync,
                   const std::function<void(TimePoint, int)>& part) {
  std::vector<double> times;
  for (int i = 0; i < kSteps + 2; ++i) {
    const auto begin = steady_now();
    times.push_back(step(comm, sync, [&](int done) { part(begin, done); }));
  }
  return median_of({times.begin() + 2, times.end()});  // the first steps rebuild the buckets
}

}  // namespace

int time_overlap(Communicator& comm) {
  GradientSync sync(comm);
  for (int i = 0; i < kTensors; ++i) {
    if (!sync.add(fmt::format("tensor {}", i), DType::f32, kElements)) {
      return 1;
    }
  }
  if (!sync.finalize()) {
    return 1;
  }
  const auto nothing = [](TimePoint, int) {};
  double alone = median_step(comm, &sync, nothing);
  const Buffer buffer{&alone, 1, DType::f64};  // must be equal on all ranks
  static_cast<void>(comm.broadcast(buffer, 0));
  const double backward = kBackwardOverSums * alone;
  const auto each = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double, std::micro>(backward / kTensors));
  const auto on_device = [&](TimePoint begin, int done) {
    std::this_thread::sleep_until(begin + done * each);
  };
  const long long steps = steps_for(comm, backward) / kTensors;
  const auto on_cpu = [&](TimePoint, int) { work(steps); };
  const auto exposed = [&](const std::function<void(TimePoint, int)>& part) {
    const double without = median_step(comm, nullptr, part);
    return 100 * (median_step(comm, &sync, part) - without) / alone;
  };
  const double device = exposed(on_device);
  const double cpu = exposed(on_cpu);
  if (comm.rank() == 0) {
    fmt::print("alone {:.9g}\ndevice {:.9g}\ncpu {:.9g}\n", alone, device, cpu);
  }
  return alone > 0 ? 0 : 1;
}

}  // namespace muster::bench
