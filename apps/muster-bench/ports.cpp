// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/ports.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "io/held_port.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <optional>
#include <vector>

#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::bench {
namespace {

// State shared by the processes.
struct Board {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> collisions{0};
  std::atomic<std::uint64_t> lost{0};
  std::array<std::atomic<bool>, 65536> has_owner{};
};

UniqueFd bound_to(std::uint16_t port, bool reuse) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuse ? 1 : 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0) {
    socket.reset();
  }
  return socket;
}

// Finds a port that is free now, but does not keep it bound.
std::optional<std::uint16_t> probe(PortRange range, std::uint64_t job) {
  const int count = range.last - range.first + 1;
  for (int i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(
        range.first + (job * 7919 + static_cast<std::uint64_t>(i)) % static_cast<unsigned>(count));
    if (bound_to(port, false)) {
      return port;
    }
  }
  return std::nullopt;
}

bool serves(std::uint16_t port) {
  const UniqueFd socket = bound_to(port, true);
  return socket && ::listen(socket.get(), 1) == 0;
}

// The job owns the port from here until it has finished listening on it.
void use(Board& board, std::uint16_t port) {
  if (board.has_owner[port].exchange(true)) {
    board.collisions.fetch_add(1);
  }
  ::sched_yield();  // simulates the time from the launcher's choice to the worker's listen()
  if (!serves(port)) {
    board.lost.fetch_add(1);
  }
  board.has_owner[port].store(false);
}

// Runs jobs until all are done. Returns the exit code for the process.
int take_turns(Board& board, const PortsPlan& plan) {
  for (std::uint64_t job = board.next.fetch_add(1); job < plan.jobs;
       job = board.next.fetch_add(1)) {
    if (plan.probed) {
      const auto port = probe(plan.range, job);
      if (!port) {
        return 1;
      }
      use(board, *port);
    } else {
      const auto port = HeldPort::take(plan.range);
      if (!port) {
        return 1;
      }
      use(board, port->number());
    }
  }
  return 0;
}

bool all_end_well(const std::vector<pid_t>& children) {
  bool well = true;
  for (const pid_t child : children) {
    int status = 0;
    well = ::waitpid(child, &status, 0) == child && status == 0 && well;
  }
  return well;
}

}  // namespace

Result<PortsFound> count_collisions(const PortsPlan& plan) {
  void* const memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return failure(Errc::system, "cannot allocate shared memory");
  }
  auto* const board = new (memory) Board;
  const TimePoint begin = steady_now();
  std::vector<pid_t> children;
  for (int i = 0; i < plan.at_once; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(take_turns(*board, plan));
    }
    children.push_back(child);
  }
  const bool well = all_end_well(children);
  const std::chrono::duration<double, std::micro> spent = steady_now() - begin;
  const PortsFound found{
      board->collisions.load(), board->lost.load(), spent.count() / static_cast<double>(plan.jobs)};
  ::munmap(memory, sizeof(Board));
  if (!well) {
    return failure(Errc::system, "a process found no port in the range");
  }
  return found;
}

}  // namespace muster::bench
