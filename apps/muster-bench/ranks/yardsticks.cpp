// SPDX-License-Identifier: Apache-2.0
// Baselines of the host without the library: memory copies, and bytes over TCP.
#include "apps/muster-bench/ranks/batches.hpp"
#include "base/clock.hpp"
#include "collective/tcp/tcp_socket.hpp"
#include "io/wait_ready.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace muster::bench {
namespace {

using collective::Buffer;
using collective::Communicator;
using collective::DType;

constexpr auto kTimeout = std::chrono::seconds(20);
constexpr int kIdleLooks = 64;  // number of idle polls before sleeping

// Connections to the next rank and from the previous rank.
struct Ring {
  UniqueFd next;
  UniqueFd before;
};

UniqueFd accept_until(int listening, TimePoint deadline) {
  if (!wait_ready(listening, POLLIN, deadline)) {
    return {};
  }
  UniqueFd fd(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) {
    collective::prepare_connection(fd.get());
  }
  return fd;
}

std::optional<Ring> make_ring(Communicator& comm) {
  const auto listening = collective::listen_at("127.0.0.1", {});
  std::vector<std::int32_t> ports(static_cast<std::size_t>(comm.size()));
  const auto self = static_cast<std::size_t>(comm.rank());
  std::int32_t port = listening ? listening->port : 0;
  const Buffer all{ports.data(), ports.size(), DType::i32};
  if (!comm.all_gather({&port, 1, DType::i32}, all)) {
    return std::nullopt;
  }
  const auto until = steady_now() + kTimeout;
  const auto to = static_cast<std::uint16_t>(ports[(self + 1) % ports.size()]);
  auto next = collective::connect_until("127.0.0.1", to, until);
  if (!listening || !next) {
    return std::nullopt;
  }
  Ring ring{std::move(*next), accept_until(listening->fd.get(), until)};
  return ring.before ? std::optional(std::move(ring)) : std::nullopt;
}

// The number of transferred bytes. Empty after an error.
std::optional<std::size_t> went(ssize_t count) {
  if (count > 0) {
    return static_cast<std::size_t>(count);
  }
  return count < 0 && errno == EAGAIN ? std::optional<std::size_t>(0) : std::nullopt;
}

// Sends and receives `bytes` bytes concurrently.
bool exchange(const Ring& ring, const char* out, char* in, std::size_t bytes) {
  std::size_t sent = 0;
  std::size_t got = 0;
  for (int idle = 0; sent < bytes || got < bytes;) {
    const auto some =
        went(send(ring.next.get(), out + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL));
    const auto more = went(recv(ring.before.get(), in + got, bytes - got, MSG_DONTWAIT));
    if ((sent < bytes && !some) || (got < bytes && !more)) {
      return false;
    }
    sent += sent < bytes ? *some : 0;
    got += got < bytes ? *more : 0;
    idle = some.value_or(0) + more.value_or(0) > 0 ? 0 : idle + 1;
    if (idle > kIdleLooks) {
      pollfd watched[] = {{ring.before.get(), static_cast<short>(got < bytes ? POLLIN : 0), 0},
                          {ring.next.get(), static_cast<short>(sent < bytes ? POLLOUT : 0), 0}};
      static_cast<void>(poll(watched, 2, 20));
    }
  }
  return true;
}

}  // namespace

int time_copies(Communicator& comm, const Arguments& cells) {
  return each_cell(comm, cells, [&](const TimedCell& cell) -> std::optional<double> {
    const auto from = pages(cell.bytes);
    const auto to = pages(cell.bytes);
    const auto pattern = pattern_before(cell.dtype, comm.rank());
    fill(from.get(), cell.bytes, pattern);
    std::memset(to.get(), 0, cell.bytes);
    const auto time = timed(comm, cell.in_a_row, [&] {
      std::memcpy(to.get(), from.get(), cell.bytes);
      asm volatile("" : : "r"(to.get()) : "memory");  // keep the compiler from removing copies
      return true;
    });
    return holds(to.get(), cell.bytes, pattern) ? time : std::nullopt;
  });
}

int time_bare_tcp(Communicator& comm, const Arguments& cells) {
  const auto ring = make_ring(comm);
  if (!ring) {
    fmt::print(stderr, "bench-ranks: cannot connect the ranks over bare TCP\n");
    return 1;
  }
  const auto n = static_cast<std::size_t>(comm.size());
  return each_cell(comm, cells, [&](const TimedCell& cell) {
    const std::size_t bytes = cell.bytes * 2 * (n - 1) / n;
    const auto out = pages(bytes);
    const auto in = pages(bytes);
    const auto pattern = pattern_before(cell.dtype, 0);
    fill(out.get(), bytes, pattern);
    std::memset(in.get(), 0, bytes);
    const auto time = timed(comm, cell.in_a_row, [&] {
      return exchange(*ring, static_cast<char*>(out.get()), static_cast<char*>(in.get()), bytes);
    });
    return holds(in.get(), bytes, pattern) ? time : std::nullopt;
  });
}

}  // namespace muster::bench
