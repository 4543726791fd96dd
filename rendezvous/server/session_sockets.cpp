// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/session_sockets.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "rendezvous/server/listener.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kReadBytes = 128UL * 1024;
constexpr int kEventsAtOnce = 256;

// How long one call of serve lasts at most before the other users of the loop get their turn, and
// what one socket may take of it.
constexpr Duration kTurn = std::chrono::milliseconds(2);
constexpr int kAcceptsPerRound = 64;
constexpr int kSendsPerRound = 4;

// How long an idle server looks for the next request before it sleeps, if that pays: if the last
// request came so soon after the one before that, without the time it takes to be woken, a look
// would have found it.
constexpr Duration kSpin = std::chrono::microseconds(60);
constexpr Duration kWakeCost = std::chrono::microseconds(40);

// A yield that takes longer ran somebody else; then there is no spin for a while.
constexpr Duration kCrowded = std::chrono::microseconds(30);
constexpr Duration kCrowdedPause = std::chrono::milliseconds(500);

// Not a tag of any session: those have a generation, which is never 0, in the upper half.
constexpr std::uint64_t kListenerTag = 0;

std::uint64_t tag_of(SessionId id, std::uint32_t generation) {
  return (std::uint64_t{generation} << 32U) | id;
}

// Of the machine: that this process may use one only says nothing about its clients.
bool has_several_cpus() {
  return ::sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

}  // namespace

Result<std::unique_ptr<SessionSockets>> SessionSockets::open(UniqueFd listener) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) {
    return std::unexpected(system_error("making an epoll set", errno));
  }
  return std::unique_ptr<SessionSockets>(new SessionSockets(std::move(listener), std::move(epoll)));
}

SessionSockets::SessionSockets(UniqueFd listener, UniqueFd epoll)
    : listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)),
      may_spin_(has_several_cpus()) {
  control(EPOLL_CTL_ADD, listener_.get(), EPOLLIN, kListenerTag);
}

void SessionSockets::serve() {
  std::array<epoll_event, kEventsAtOnce> events;
  const TimePoint start = steady_now();
  spin_pays_ = spin_pays_ || (start - went_idle_ < kSpin + kWakeCost && start > crowded_until_);
  std::optional<TimePoint> idle_since;
  for (TimePoint now = start; now - start < kTurn; now = steady_now()) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, 0);
    for (int i = 0; i < count; ++i) {
      handle(events[static_cast<std::size_t>(i)]);
    }
    if (count > 0) {
      flush_touched();
      idle_since.reset();
    } else if (!idle_since) {
      idle_since = now;
    }
    if (idle_since && !spin_on(now, now - *idle_since)) {
      went_idle_ = *idle_since;
      return;
    }
  }
}

// Nothing has been ready for so long: whether to look again at once.
bool SessionSockets::spin_on(TimePoint now, Duration idle) {
  spin_pays_ = spin_pays_ && may_spin_ && idle <= kSpin;
  if (!spin_pays_) {
    return false;
  }
  // Whoever wants this cpu gets it, so that a spin never takes it from a worker. If somebody did,
  // the machine is busy, and one that sleeps gets its cpu back sooner than one that yields.
  ::sched_yield();
  const TimePoint after = steady_now();
  if (after - now > kCrowded) {
    crowded_until_ = after + kCrowdedPause;
    spin_pays_ = false;
  }
  return true;
}

void SessionSockets::handle(const epoll_event& event) {
  if (event.data.u64 == kListenerTag) {
    accept_some();
    return;
  }
  const auto id = static_cast<SessionId>(event.data.u64 & 0xFFFFFFFFU);
  const auto generation = static_cast<std::uint32_t>(event.data.u64 >> 32U);
  if (connections_[id].generation != generation || !connections_[id].fd) {
    return;
  }
  if (core_.wants_input(id) && (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    read(id);
  } else if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) {
    drop(id);
  } else {
    flush(id);
  }
}

void SessionSockets::accept_some() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      adopt(std::move(fd));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pause_accept();
      return;
    } else if (errno == EAGAIN) {
      return;
    }
    // Anything else (ECONNABORTED, EPROTO …) concerns a connection that died in the queue.
  }
}

void SessionSockets::adopt(UniqueFd fd) {
  const SessionId id = core_.open();
  if (id >= connections_.size()) {
    connections_.resize(id + 1);
  }
  Connection& connection = connections_[id];
  connection.fd = std::move(fd);
  if (++connection.generation == 0) {
    connection.generation = 1;
  }
  connection.armed = EPOLLIN;
  control(EPOLL_CTL_ADD, connection.fd.get(), EPOLLIN, tag_of(id, connection.generation));
}

// Without a free descriptor the listener would stay readable and keep the loop busy for nothing.
void SessionSockets::pause_accept() {
  accept_paused_ = true;
  control(EPOLL_CTL_MOD, listener_.get(), 0, kListenerTag);
}

void SessionSockets::accept_again() {
  if (std::exchange(accept_paused_, false)) {
    control(EPOLL_CTL_MOD, listener_.get(), EPOLLIN, kListenerTag);
  }
}

void SessionSockets::read(SessionId id) {
  const auto count = ::recv(connections_[id].fd.get(), buffer_.get(), kReadBytes, 0);
  if (count > 0) {
    const std::string_view bytes(buffer_.get(), static_cast<std::size_t>(count));
    if (is_node(id, bytes)) [[unlikely]] {
      give_away(id, bytes);
      return;
    }
    core_.receive(id, bytes);
    flush(id);
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    drop(id);
  }
}

bool SessionSockets::is_node(SessionId id, std::string_view bytes) const {
  return static_cast<std::uint8_t>(bytes.front()) == kRoundDialect && adopter_ &&
         core_.untouched(id);
}

void SessionSockets::give_away(SessionId id, std::string_view bytes) {
  UniqueFd fd = std::move(connections_[id].fd);
  control(EPOLL_CTL_DEL, fd.get(), 0, 0);
  core_.forget(id);
  adopter_(std::move(fd), std::string(bytes));
}

void SessionSockets::flush(SessionId id) {
  const int fd = connections_[id].fd.get();
  for (int i = 0; i < kSendsPerRound && !core_.output(id).empty(); ++i) {
    const std::string_view bytes = core_.output(id);
    const auto count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      drop(id);
      return;
    }
    core_.sent(id, count < 0 ? 0 : static_cast<std::size_t>(count));
    if (count < 0) {
      break;
    }
  }
  if (!core_.closing(id).empty()) {
    refuse(id);
  } else {
    arm(id);
  }
}

void SessionSockets::flush_touched() {
  // Flushing may serve held-back requests, which may touch others in turn.
  for (auto touched = core_.take_touched(); !touched.empty(); touched = core_.take_touched()) {
    for (const SessionId id : touched) {
      if (connections_[id].fd) {
        flush(id);
      }
    }
  }
}

void SessionSockets::arm(SessionId id) {
  Connection& connection = connections_[id];
  const std::uint32_t input = core_.wants_input(id) ? std::uint32_t{EPOLLIN} : 0U;
  const std::uint32_t output = core_.output(id).empty() ? 0U : std::uint32_t{EPOLLOUT};
  if (connection.armed != (input | output)) {
    connection.armed = input | output;
    control(
        EPOLL_CTL_MOD, connection.fd.get(), connection.armed, tag_of(id, connection.generation));
  }
}

void SessionSockets::refuse(SessionId id) {
  if (notice_ && core_.greeted(id)) {
    notice_("closed the session of " + describe_peer(connections_[id].fd.get()) + ": " +
            core_.closing(id));
  }
  drop(id);
}

void SessionSockets::drop(SessionId id) {
  connections_[id].fd.reset();
  core_.forget(id);
  accept_again();
}

void SessionSockets::control(int operation, int fd, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  // Fails only without memory, or at the limit of watches, where nothing else could be done.
  MUSTER_CHECK(::epoll_ctl(epoll_.get(), operation, fd, &event) == 0);
}

}  // namespace muster
