// SPDX-License-Identifier: Apache-2.0
// bench-ranks: ranks of the collective library, without a launcher, for the collective block.
//   bench-ranks RANKS private|library|tcp|copy|bare CELL… times, one line per cell
//   bench-ranks RANKS overlap                            share hidden by GradientSync, in percent
//   bench-ranks RANKS death MIB       time from SIGKILL of a rank until all others have an error
// Forks the ranks first, then serves their store.
#include "apps/muster-bench/ranks/ranks.hpp"
#include "base/clock.hpp"
#include "base/environ.hpp"
#include "base/fd.hpp"
#include "collective/bootstrap/served_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::bench {
namespace {

struct Job {
  int ranks = 0;
  std::string what;
  Arguments arguments;
  int reports = -1;
};

int perform(const Job& job, collective::Communicator& comm) {
  if (job.what == "overlap") {
    return time_overlap(comm);
  }
  if (job.what == "death") {
    return sum_until_error(
        comm, std::strtoul(job.arguments.at(0).c_str(), nullptr, 10), job.reports);
  }
  if (job.what == "bare") {
    return time_bare_tcp(comm, job.arguments);
  }
  return job.what == "copy" ? time_copies(comm, job.arguments)
                            : time_sums(comm, job.arguments, job.what == "library");
}

int be_rank(const Job& job, int rank, int store) {
  std::uint16_t port = 0;
  if (read(store, &port, sizeof(port)) != sizeof(port)) {
    return 1;
  }
  Environ place;
  place.set("RANK", std::to_string(rank));
  place.set("WORLD_SIZE", std::to_string(job.ranks));
  place.set("MASTER_ADDR", "127.0.0.1");
  place.set("MASTER_PORT", std::to_string(port));
  place.set("MUSTER_COLLECTIVE_BACKEND", job.what == "tcp" ? "tcp" : "shm");
  auto comm = collective::Communicator::from_env(place, {});
  if (!comm) {
    fmt::print(stderr, "bench-ranks: {}\n", comm.error().text);
    return 1;
  }
  return perform(job, *comm);
}

// Reads one line. Empty at end of file.
std::string line_from(int fd) {
  std::string line;
  for (char c = 0; read(fd, &c, 1) == 1 && c != '\n';) {
    line += c;
  }
  return line;
}

// Kills the last rank once all ranks are running. Prints the time until all others have an error.
void oversee_death(const std::vector<pid_t>& ranks, int reports) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    static_cast<void>(line_from(reports));
  }
  const auto begin = steady_now().time_since_epoch().count();
  kill(ranks.back(), SIGKILL);
  long long last = 0;
  for (std::size_t i = 0; i + 1 < ranks.size(); ++i) {
    last = std::max(last, std::strtoll(line_from(reports).c_str(), nullptr, 10));
  }
  fmt::print("death {:.9g}\n", static_cast<double>(last - begin) / 1e3);
}

// Returns the highest exit code. If a rank fails, kills the others.
int wait_for_all(const std::vector<pid_t>& ranks, pid_t victim) {
  int worst = 0;
  for (std::size_t left = ranks.size(); left > 0; --left) {
    int status = 0;
    const pid_t pid = wait(&status);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 0 || pid == victim) {
      continue;
    }
    for (const pid_t other : ranks) {
      kill(other, worst == 0 ? SIGTERM : 0);
    }
    worst = std::max(worst, code);
  }
  return worst;
}

int run(Job job) {
  auto ports = make_pipe();
  auto reports = make_pipe();
  if (!ports || !reports) {
    return 1;
  }
  job.reports = reports->write.get();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < job.ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      const int code = be_rank(job, rank, ports->read.get());
      std::fflush(nullptr);
      _exit(code);
    }
    ranks.push_back(pid);
  }
  const auto store = collective::ServedStore::open("127.0.0.1", 0);
  const std::uint16_t port = store ? (*store)->port() : 0;
  for (int i = 0; i < job.ranks; ++i) {
    if (write(ports->write.get(), &port, sizeof(port)) != sizeof(port)) {
      return 1;
    }
  }
  reports->write.reset();
  if (job.what == "death") {
    oversee_death(ranks, reports->read.get());
  }
  return wait_for_all(ranks, job.what == "death" ? ranks.back() : -1);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  const muster::bench::Arguments all(argv, argv + argc);
  const int ranks = argc > 2 ? std::atoi(argv[1]) : 0;
  const std::vector<std::string> known{
      "private", "library", "tcp", "copy", "bare", "overlap", "death"};
  if (ranks < 1 || std::ranges::find(known, all[2]) == known.end()) {
    fmt::print(stderr, "bench-ranks: called by muster-bench collective; see its source\n");
    return 2;
  }
  return muster::bench::run({ranks, all[2], {all.begin() + 3, all.end()}});
}
