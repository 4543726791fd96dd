// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/mpi_watch.hpp"

#include "base/text.hpp"
#include "process/tree/descendants.hpp"
#include "process/tree/live_mpi.hpp"

#include <fmt/core.h>

namespace muster {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(2);
constexpr Duration kLastPause = std::chrono::seconds(64);  // MPI_Init is one of the first calls
constexpr std::size_t kProcessesMax = 32;                  // all ranks run the same program

}  // namespace

void MpiWatch::take(const JobEvent& event) {
  if (const auto* begun = std::get_if<event::RoundBegun>(&event.what)) {
    begin(begun->assignment);
  } else if (std::holds_alternative<event::WorkerEnded>(event.what) ||
             std::holds_alternative<event::JobEnded>(event.what)) {
    timer_.cancel();
  }
}

// If mpirun starts one launcher per worker, the workers may have a real MPI_COMM_WORLD.
void MpiWatch::begin(const Assignment& given) {
  timer_.cancel();
  world_size_ = given.world_size;
  if (!done_ && world_size_ > 1 && given.group_rank == 0 && !config_.task) {
    pause_ = kFirstPause;
    wait();
  }
}

void MpiWatch::wait() {
  timer_.expires_after(pause_);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) {
      pause_ *= 2;
      look();
    }
  });
}

void MpiWatch::look() {
  std::size_t looked = 0;
  for (const ProcessRow& row : descendants()) {
    if (++looked > kProcessesMax) {
      break;
    }
    if (has_called_mpi_init(row.pid)) {
      done_ = true;
      events_.say(LogLevel::warning,
                  fmt::format("{} (pid {}) called MPI_Init and is alone in its MPI_COMM_WORLD, "
                              "because muster does not start MPI jobs; use mpirun -n {} {}",
                              row.command,
                              row.pid,
                              world_size_,
                              shell_quoted(config_.program.name)));
      return;
    }
  }
  if (pause_ <= kLastPause) {
    wait();
  }
}

}  // namespace muster
