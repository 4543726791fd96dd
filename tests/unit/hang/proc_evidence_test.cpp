// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/proc_evidence.hpp"

#include "support/catch.hpp"

#include <csignal>
#include <cstddef>
#include <fstream>
#include <string>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::hang {
namespace {

// A busy process on the first CPU that we may use.
class Spinner {
 public:
  Spinner() {
    const pid_t test = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      bind();
      while (::getppid() == test) {
      }
      ::_exit(0);  // the test was killed
    }
  }

  ~Spinner() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  static void bind() {
    cpu_set_t all;
    ::sched_getaffinity(0, sizeof(all), &all);
    std::size_t first = 0;
    while (!CPU_ISSET(first, &all)) {
      ++first;
    }
    CPU_ZERO(&all);
    CPU_SET(first, &all);
    ::sched_setaffinity(0, sizeof(all), &all);
  }

  pid_t pid_ = 0;
};

struct Scheduled {
  double ran = 0;  // seconds
  double waited = 0;
};

Scheduled scheduled(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  Scheduled out;
  file >> out.ran >> out.waited;
  return {out.ran / 1e9, out.waited / 1e9};
}

}  // namespace

// Otherwise a rank would seem idle if other processes take its CPU.
TEST_CASE("proc evidence: a thread that waits for a CPU is busy") {
  constexpr double kEnough = 0.2;
  constexpr double kTicks = 0.03;  // user and system time have a resolution of 10 ms
  if (!std::ifstream("/proc/self/schedstat")) {
    WARN("skipped: this kernel does not report how long a process waits for a CPU");
    return;
  }
  const Spinner first;
  const Spinner second;
  while (scheduled(first.pid()).waited < kEnough) {
    ::sched_yield();
  }
  const Scheduled before = scheduled(first.pid());
  CHECK(used_by(first.pid()).cpu_seconds >= before.ran + before.waited - kTicks);
}

TEST_CASE("proc evidence: an exited process has used no CPU time") {
  pid_t ended = 0;
  {
    const Spinner spinner;
    ended = spinner.pid();
  }
  CHECK(used_by(ended).cpu_seconds == 0);
}

}  // namespace muster::hang
