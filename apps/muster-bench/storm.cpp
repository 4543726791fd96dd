// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/storm.hpp"

#include "apps/muster-bench/connection.hpp"
#include "base/clock.hpp"

#include <array>
#include <utility>

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace muster::bench {
namespace {

constexpr int kEvents = 256;
constexpr int kTimeoutMs = 20'000;

// One phase of the storm: every connection sends one request and waits for the answer.
class Phase {
 public:
  explicit Phase(std::size_t clients) : epoll_(epoll_create1(EPOLL_CLOEXEC)), missing_(clients) {}

  // Sends a request on one connection and starts waiting for its answer.
  Result<void> begin(int fd, std::size_t number, const Exchange& step);

  // Receives answers until at most `left` connections are waiting.
  Result<void> settle(const std::vector<UniqueFd>& connections, std::size_t left);

 private:
  Result<void> take(int fd, std::size_t number);

  UniqueFd epoll_;
  std::vector<std::size_t> missing_;
  std::size_t waiting_ = 0;
};

Result<void> Phase::begin(int fd, std::size_t number, const Exchange& step) {
  missing_[number] = step.reply.size();
  ++waiting_;
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.u64 = number;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) != 0) {
    return std::unexpected(system_error("cannot watch a connection", errno));
  }
  return send_all(fd, step.request);
}

Result<void> Phase::take(int fd, std::size_t number) {
  std::array<char, 4096> buffer;
  const auto got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return {};
  }
  if (got <= 0 || static_cast<std::size_t>(got) > missing_[number]) {
    return failure(Errc::closed, "a server closed a connection during the storm");
  }
  missing_[number] -= static_cast<std::size_t>(got);
  if (missing_[number] == 0) {
    --waiting_;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
  return {};
}

Result<void> Phase::settle(const std::vector<UniqueFd>& connections, std::size_t left) {
  std::array<epoll_event, kEvents> events;
  while (waiting_ > left) {
    const int ready = epoll_wait(epoll_.get(), events.data(), kEvents, kTimeoutMs);
    if (ready == 0) {
      return failure(Errc::timed_out, "a server did not answer connections for 20 s");
    }
    for (int i = 0; i < ready; ++i) {
      const auto number = events[static_cast<std::size_t>(i)].data.u64;
      if (auto taken = take(connections[number].get(), number); !taken) {
        return taken;
      }
    }
  }
  return {};
}

// The request of each connected client: SET and GET of its own key, in one segment.
Exchange set_and_get(Protocol protocol, std::size_t number) {
  auto get = exchange(protocol, Operation::get, number);
  if (protocol == Protocol::echo) {
    return get;
  }
  const auto set = streamed_set(protocol, number);
  return {set.request + get.request, set.reply + get.reply, true};
}

Result<void> meet_all(const StormPlan& plan, std::vector<UniqueFd>& connections) {
  Phase phase(plan.clients);
  for (std::size_t number = 0; number < plan.clients; ++number) {
    auto fd = connect_to(plan.port);
    MUSTER_RETURN_IF_ERROR(fd);
    connections.push_back(std::move(*fd));
    const auto hello = greeting(plan.protocol, set_and_get(plan.protocol, number));
    if (auto begun = phase.begin(connections.back().get(), number, hello); !begun) {
      return begun;
    }
    if (auto paced = phase.settle(connections, kStormPace); !paced) {
      return paced;
    }
  }
  return phase.settle(connections, 0);
}

Result<void> ask_all(const StormPlan& plan, const std::vector<UniqueFd>& connections) {
  Phase phase(plan.clients);
  for (std::size_t number = 0; number < plan.clients; ++number) {
    const auto step = set_and_get(plan.protocol, number);
    if (auto begun = phase.begin(connections[number].get(), number, step); !begun) {
      return begun;
    }
  }
  return phase.settle(connections, 0);
}

}  // namespace

Result<Storm> raise_storm(const StormPlan& plan) {
  Storm storm;
  storm.connections.reserve(plan.clients);
  const auto begin = steady_now();
  MUSTER_RETURN_IF_ERROR(meet_all(plan, storm.connections));
  storm.connected = steady_now() - begin;
  MUSTER_RETURN_IF_ERROR(ask_all(plan, storm.connections));
  storm.whole = steady_now() - begin;
  return storm;
}

Result<std::vector<UniqueFd>> open_idle(const StormPlan& plan) {
  std::vector<UniqueFd> connections;
  connections.reserve(plan.clients);
  MUSTER_RETURN_IF_ERROR(meet_all(plan, connections));
  return connections;
}

}  // namespace muster::bench
