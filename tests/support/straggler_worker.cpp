// SPDX-License-Identifier: Apache-2.0
// straggler_worker: ranks that work for a while and meet in a sum, step after step:
//   straggler_worker STEPS UNITS nap|spin tell|quiet [SLOW_RANK EXTRA_UNITS]
// A unit of work is a nap, or a millisecond of CPU time. One rank may have more work in each step.
// Rank 0 prints the duration of its steps, and ends the job early if $STOP_FILE exists.
#include "muster/collective.hpp"
#include "muster/worker.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>

#include <unistd.h>

namespace {

constexpr auto kUnit = std::chrono::milliseconds(1);

std::chrono::nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// A rank that is paused meanwhile makes no progress.
void work(int units, bool naps) {
  if (naps) {
    for (int i = 0; i < units; ++i) {
      std::this_thread::sleep_for(kUnit);
    }
    return;
  }
  for (const auto end = processor_time() + units * kUnit; processor_time() < end;) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    return 2;
  }
  const int steps = std::atoi(argv[1]);
  const int units = std::atoi(argv[2]);
  const bool naps = std::string_view(argv[3]) == "nap";
  const bool tells = std::string_view(argv[4]) == "tell";
  const int slow = argc > 6 ? std::atoi(argv[5]) : -1;
  const int extra = argc > 6 ? std::atoi(argv[6]) : 0;
  auto comm = muster::Communicator::from_env();
  if (!comm) {
    std::fprintf(stderr, "%s\n", comm.error().text.c_str());
    return 1;
  }
  const char* const stop_file = std::getenv("STOP_FILE");
  const int mine = units + (comm->rank() == slow ? extra : 0);
  auto begun = std::chrono::steady_clock::now();
  int made = 0;
  for (float stop = 0; made < steps && stop == 0; ++made) {
    work(mine, naps);
    stop = comm->rank() == 0 && stop_file != nullptr && ::access(stop_file, F_OK) == 0 ? 1 : 0;
    if (const auto done = comm->all_reduce({&stop, 1}, muster::Op::sum); !done) {
      std::fprintf(stderr, "%s\n", done.error().text.c_str());
      return 1;
    }
    if (made == 0) {  // ranks have not started at the same moment
      begun = std::chrono::steady_clock::now();
    }
    if (tells) {
      muster::worker::progress(static_cast<std::uint64_t>(made));
    }
  }
  if (comm->rank() == 0) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    std::printf("%d steps of %.6f s\n", made, took.count() / (made > 1 ? made - 1 : 1));
  }
  return 0;
}
