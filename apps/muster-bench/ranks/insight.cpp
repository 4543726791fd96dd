// SPDX-License-Identifier: Apache-2.0
// bench-insight: workers of the insight block.
//   bench-insight calibrate MS         prints the number of work units that take MS milliseconds
//   bench-insight steps UNITS COUNT tell|quiet
//                                      runs COUNT steps of work; local rank 0 prints "begun", then
//                                      their mean and median in microseconds; then all wait
//   bench-insight progress COUNT       prints the duration of a progress() call in nanoseconds
//   bench-insight follow FILE          records its own start, and when it learns of a death
#include "base/clock.hpp"
#include "base/environ.hpp"
#include "worker/worker.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace {

using muster::Duration;
using muster::steady_now;
using namespace std::chrono_literals;

constexpr int kUsage = 2;
constexpr long long kTrialUnits = 200'000;
constexpr int kTrials = 200;

int number_in(const char* name) {
  static const auto environ_of_start = muster::Environ::from_block(::environ);
  return std::atoi(environ_of_start.get(name).value_or("0").c_str());
}

// Work that the compiler cannot remove and whose speed does not depend on memory.
void work(long long units) {
  static volatile std::uint64_t kept = 0;
  std::uint64_t value = kept;
  for (long long i = 0; i < units; ++i) {
    value = value * 6364136223846793005U + 1442695040888963407U;
  }
  kept = value;
}

// Uses the fastest of many trials, because slower ones were disturbed.
int calibrate(long long milliseconds) {
  Duration least = Duration::max();
  for (int i = 0; i < kTrials; ++i) {
    const auto begun = steady_now();
    work(kTrialUnits);
    least = std::min<Duration>(least, steady_now() - begun);
  }
  const Duration wanted = milliseconds * 1ms;
  std::printf("%lld\n", kTrialUnits * (wanted / 1us) / std::max<long long>(1, least / 1us));
  return 0;
}

int take_steps(long long units, int count, bool tells) {
  const bool prints = number_in("LOCAL_RANK") == 0;
  work(units);  // warm up
  if (prints) {
    std::puts("begun");
    std::fflush(stdout);
  }
  std::vector<double> times;
  for (int step = 0; step < count; ++step) {
    const auto begun = steady_now();
    work(units);
    if (tells) {
      muster::worker::progress(static_cast<std::uint64_t>(step));
    }
    times.push_back(std::chrono::duration<double, std::micro>(steady_now() - begun).count());
  }
  if (prints) {
    double sum = 0;
    for (const double time : times) {
      sum += time;
    }
    std::ranges::sort(times);
    std::printf("%.3f %.3f\n", sum / count, times[times.size() / 2]);
    std::fflush(stdout);
  }
  pause();
  return 0;
}

int time_progress(int count) {
  muster::worker::progress(0);  // the first call connects to the launcher
  const auto begun = steady_now();
  for (int step = 0; step < count; ++step) {
    muster::worker::progress(static_cast<std::uint64_t>(step));
  }
  const std::chrono::duration<double, std::nano> took = steady_now() - begun;
  std::printf("%.2f\n", took.count() / count);
  return 0;
}

// The same format as in bench-floor: "EVENT NUMBER RANK NANOSECONDS", one line per write.
void note(const char* file, const char* event, long long number) {
  char line[128];
  const long long now = steady_now().time_since_epoch().count();
  const int size =
      std::snprintf(line, sizeof line, "%s %lld %d %lld\n", event, number, number_in("RANK"), now);
  const int fd = ::open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ::write(fd, line, static_cast<std::size_t>(size)) != size) {
    ::_exit(1);
  }
  ::close(fd);
}

// Ignores SIGTERM until it has learned of the death, because the notification may arrive after the
// signal.
int follow(const char* file) {
  std::signal(SIGTERM, SIG_IGN);
  muster::worker::Rounds rounds;
  bool heard = false;
  while (!rounds.ended()) {
    const auto news = rounds.next(60s);
    if (!news) {
      continue;
    }
    if (std::holds_alternative<muster::worker::Round>(*news)) {
      note(file, "member", ::getpid());
    } else if (const auto* gone = std::get_if<muster::worker::Gone>(&*news);
               gone != nullptr && !heard) {
      heard = true;
      note(file, "gone", gone->rank);
    } else if (std::holds_alternative<muster::worker::Stop>(*news)) {
      return 0;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 2 ? argv[1] : "";
  if (mode == "calibrate") {
    return calibrate(std::atoll(argv[2]));
  }
  if (mode == "steps" && argc > 4) {
    return take_steps(std::atoll(argv[2]), std::atoi(argv[3]), std::strcmp(argv[4], "tell") == 0);
  }
  if (mode == "progress") {
    return time_progress(std::atoi(argv[2]));
  }
  if (mode == "follow") {
    return follow(argv[2]);
  }
  static_cast<void>(
      std::fprintf(stderr, "usage: bench-insight calibrate|steps|progress|follow …\n"));
  return kUsage;
}
