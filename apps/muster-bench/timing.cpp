// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/timing.hpp"

#include "apps/muster-bench/child.hpp"
#include "base/clock.hpp"
#include "base/fd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include <unistd.h>

namespace muster::bench {
namespace {

// Reads until all writers have closed the pipe. Returns the number of lines.
long long drain(int fd) {
  std::vector<char> buffer(std::size_t{256} * 1024);
  long long lines = 0;
  for (;;) {
    const auto got = read(fd, buffer.data(), buffer.size());
    if (got <= 0) {
      return lines;
    }
    lines += std::count(buffer.begin(), buffer.begin() + got, '\n');
  }
}

}  // namespace

Result<Timing> measure_time(const TimingPlan& plan) {
  auto console = make_pipe();
  MUSTER_RETURN_IF_ERROR(console);
  Timing timing;
  std::vector<Child> children;
  children.reserve(plan.programs.size());
  const auto begin = steady_now();
  for (const auto& argv : plan.programs) {
    auto child = Child::start(argv, plan.drain ? console->write.get() : -1);
    MUSTER_RETURN_IF_ERROR(child);
    children.push_back(std::move(*child));
  }
  if (plan.drain) {
    console->write.reset();
    timing.lines = drain(console->read.get());
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (const int code = children[i].wait(plan.timeout_ms); code != 0) {
      return failure(Errc::system,
                     fmt::format("{} exited with code {}", plan.programs[i].front(), code));
    }
  }
  timing.milliseconds = std::chrono::duration<double, std::milli>(steady_now() - begin).count();
  return timing;
}

}  // namespace muster::bench
