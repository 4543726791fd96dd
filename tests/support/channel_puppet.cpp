// SPDX-License-Identifier: Apache-2.0
// channel_puppet: a worker that talks to its agent through the shared library, in C++ and in C.
// Prints what it receives. Its argument selects what it does.
#include "muster/worker.h"
#include "muster/worker.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace worker = muster::worker;
using namespace std::chrono_literals;

namespace {

int tell() {
  for (std::uint64_t step = 0; step < 3; ++step) {
    worker::progress(step);
    muster_worker_progress(step);
  }
  const int numbers = int{worker::number("loss", 0.5)} + muster_worker_number("loss", 0.25) +
                      muster_worker_number("a b", 1) + muster_worker_number(nullptr, 1);
  const int cpp = int{worker::ready()} + int{worker::event(R"({"from":"c++"})")} +
                  int{worker::unhealthy("hot")} + int{worker::healthy()};
  const int c = muster_worker_ready() + muster_worker_event("[\"c\"]") +
                muster_worker_unhealthy("cold") + muster_worker_healthy();
  const int wrong = int{worker::event("{")} + muster_worker_event(nullptr) +
                    int{worker::event(std::string(9000, ' ') + "1")};
  std::printf("epoch %llu %llu numbers %d told %d %d wrong %d stopping %d %d\n",
              static_cast<unsigned long long>(worker::epoch()),
              static_cast<unsigned long long>(muster_worker_epoch()),
              numbers,
              cpp,
              c,
              wrong,
              int{worker::stopping()},
              muster_worker_stopping());
  return 0;
}

// Rank 1 waits on a named pipe until both other ranks have written to it.
void meet(int rank, const char* pipe) {
  const int fd = ::open(pipe, O_RDWR);
  char byte = 0;
  for (int left = rank == 1 ? 2 : 1; left > 0; --left) {
    const auto moved = rank == 1 ? ::read(fd, &byte, 1) : ::write(fd, &byte, 1);
    if (moved != 1) {
      break;
    }
  }
  if (rank == 1) {
    ::close(fd);  // the other ranks keep it open; otherwise their data would be lost
  }
}

// Rank 1 fails once all ranks have their round; the others learn of it.
int follow(const char* pipe) {
  std::signal(SIGTERM, SIG_IGN);
  worker::Feed rounds;
  muster_feed* const feed = muster_feed_open();
  muster_news news{};
  news.size = sizeof(news);
  const worker::News first = rounds.next(60s);
  if (first.kind != worker::NewsKind::round ||
      muster_feed_next(feed, 60'000, &news) != MUSTER_NEWS_ROUND) {
    return 2;
  }
  const int rank = first.rank;
  meet(rank, pipe);
  if (rank == 1) {
    muster_feed_close(feed);
    return 7;
  }
  int gone = -1;
  auto heard = worker::NewsKind::none;
  while (heard != worker::NewsKind::stop && heard != worker::NewsKind::ended) {
    const worker::News next = rounds.next(-1ms);
    heard = next.kind;
    gone = heard == worker::NewsKind::gone && gone < 0 ? next.rank : gone;
  }
  int kind = MUSTER_NEWS_NONE;
  int c_gone = -1;
  while (kind != MUSTER_NEWS_STOP && kind != MUSTER_NEWS_ENDED) {
    kind = muster_feed_next(feed, -1, &news);
    c_gone = kind == MUSTER_NEWS_GONE && c_gone < 0 ? news.rank : c_gone;
  }
  muster_feed_close(feed);
  std::printf("rank %d gone %d %d stopping %d %d\n",
              rank,
              gone,
              c_gone,
              kind == MUSTER_NEWS_STOP ? 1 : 0,
              int{worker::stopping()});
  return 0;
}

// The child has its own connection; threads share one.
int fork_and_share() {
  worker::event("\"parent\"");
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(worker::event("\"child\"") ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int step = 0; step < 10; ++step) {
        worker::progress(static_cast<std::uint64_t>(step));
        worker::event("\"thread\"");
      }
    });
  }
  for (std::thread& one : threads) {
    one.join();
  }
  std::printf("child %d\n", status);
  return 0;
}

// Prints the cost of progress, for people.
int time_progress() {
  constexpr int kTimes = 20'000'000;
  worker::progress(0);
  const auto begun = std::chrono::steady_clock::now();
  for (int step = 0; step < kTimes; ++step) {
    worker::progress(static_cast<std::uint64_t>(step));
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
  std::printf("%.1f ns\n", took.count() / kTimes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "tell") {
    return tell();
  }
  if (mode == "follow") {
    return argc > 2 ? follow(argv[2]) : 2;
  }
  if (mode == "fork") {
    return fork_and_share();
  }
  return mode == "time" ? time_progress() : 2;
}
