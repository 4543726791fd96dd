// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/session_sockets.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "rendezvous/server/listener.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <malloc.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kReadBytes = 128UL * 1024;
constexpr int kEventsAtOnce = 256;

// Maximum duration of one serve call, so that other users of the loop can run. The next two
// constants limit the work per socket in one call.
constexpr Duration kTurn = std::chrono::milliseconds(2);
constexpr int kAcceptsPerRound = 64;
constexpr int kSendsPerRound = 4;

// An idle server polls for this long before it sleeps, but only if the last request arrived so soon
// after the previous one that polling would have caught it. The wakeup time is subtracted from that
// interval.
constexpr Duration kSpin = std::chrono::microseconds(60);
constexpr Duration kWakeCost = std::chrono::microseconds(40);

// If a yield takes longer than this, another process ran. Spinning is then disabled for a while.
constexpr Duration kCrowded = std::chrono::microseconds(30);
constexpr Duration kCrowdedPause = std::chrono::milliseconds(500);

// Returning less memory than this is not worth the time to walk the heap.
constexpr std::uint64_t kReturnedBytesMin = 16UL * 1024 * 1024;

// Sessions never use these tags, because a session's tag has a non-zero generation in its upper
// half.
constexpr std::uint64_t kListenerTag = 0;
constexpr std::uint64_t kWorkTag = 1;

std::uint64_t tag_of(SessionId id, std::uint32_t generation) {
  return (std::uint64_t{generation} << 32U) | id;
}

// Counts the host's CPUs. Even if this process is bound to one CPU, its clients may use others.
bool has_several_cpus() {
  return ::sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

// glibc merges small freed blocks when a block of 64 KiB or more is freed. After a hundred thousand
// small blocks that takes 10 ms, so merge them after each turn.
void merge_freed_memory() {
#ifdef __GLIBC__
  constexpr std::size_t kMergingBytes = 65UL * 1024;
  const auto block = std::make_unique_for_overwrite<char[]>(kMergingBytes);
  *static_cast<volatile char*>(block.get()) = 0;  // keeps the compiler from removing the block
#endif
}

}  // namespace

Result<std::unique_ptr<SessionSockets>> SessionSockets::open(UniqueFd listener) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) {
    return std::unexpected(system_error("cannot create an epoll set", errno));
  }
  UniqueFd work(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!work) {
    return std::unexpected(system_error("cannot create an eventfd", errno));
  }
  return std::unique_ptr<SessionSockets>(
      new SessionSockets(std::move(listener), std::move(epoll), std::move(work)));
}

SessionSockets::SessionSockets(UniqueFd listener, UniqueFd epoll, UniqueFd work)
    : listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      work_(std::move(work)),
      buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)),
      may_spin_(has_several_cpus()) {
  control(EPOLL_CTL_ADD, listener_.get(), EPOLLIN, kListenerTag);
  control(EPOLL_CTL_ADD, work_.get(), 0, kWorkTag);
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
      note_turn();
      idle_since.reset();
    } else if (!idle_since) {
      idle_since = now;
    }
    if (idle_since && !spin_on(now, now - *idle_since)) {
      went_idle_ = *idle_since;
      return_memory(true);
      return;
    }
  }
  return_memory(false);
}

// malloc keeps the pages of small deleted keys. They are returned to the system once the store has
// shrunk to half its size and no socket is ready, because this may take milliseconds.
void SessionSockets::return_memory(bool idle) {
  const std::uint64_t stored = core_.store().stored_bytes();
  stored_most_ = std::max(stored_most_, stored);
  if (!idle || stored > stored_most_ / 2 || stored_most_ - stored < kReturnedBytesMin) {
    return;
  }
  stored_most_ = stored;
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

// Decides whether to poll again immediately, given this idle time.
bool SessionSockets::spin_on(TimePoint now, Duration idle) {
  spin_pays_ = spin_pays_ && may_spin_ && idle <= kSpin;
  if (!spin_pays_) {
    return false;
  }
  // Yield first, so that spinning never takes a CPU from a worker. If another process ran, the host
  // is busy. On a busy host, a sleeping process gets a CPU sooner than a process that yields.
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
  if (event.data.u64 == kWorkTag) {
    core_.advance();
    merge_freed_memory();
    return;
  }
  const auto id = static_cast<SessionId>(event.data.u64 & 0xFFFFFFFFU);
  const auto generation = static_cast<std::uint32_t>(event.data.u64 >> 32U);
  if (connections_[id].generation != generation || !connections_[id].fd) {
    return;
  }
  if (connections_[id].standing == Standing::asking) {
    drop(id);  // only hangups are watched, so the client has hung up
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
  const std::size_t most_silent = quarter_of_descriptors();
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int why = fd ? 0 : errno;
    if (fd) {
      adopt(std::move(fd));
      if (silent_.size() > most_silent) {
        static_cast<void>(close_oldest_silent());
      }
    } else if (is_shortage(why)) {
      if (!has_backlog(listener_.get())) {
        return;
      }
      if (!close_oldest_silent()) {
        pause_accept(why);
        return;
      }
    } else if (why == EAGAIN) {
      return;
    }
    // Other errors, such as ECONNABORTED, mean that a connection died in the backlog.
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
  connection.standing = Standing::client;
  set_standing(id, Standing::silent);
  control(EPOLL_CTL_ADD, connection.fd.get(), EPOLLIN, tag_of(id, connection.generation));
}

void SessionSockets::pause_accept(int why) {
  const auto text = accept_pause_.begin(steady_now(), why);
  control(EPOLL_CTL_MOD, listener_.get(), 0, kListenerTag);
  if (notice_ && text) {
    notice_(*text);
  }
}

void SessionSockets::accept_again() {
  if (accept_pause_.end()) {
    control(EPOLL_CTL_MOD, listener_.get(), EPOLLIN, kListenerTag);
  }
}

// If many connections arrived at once, the oldest connection's greeting may still be unread in its
// socket. So each connection is read before it is closed, and stays open if it has sent something.
// Returns true once a descriptor is free.
bool SessionSockets::close_oldest_silent() {
  while (!silent_.empty()) {
    const auto [ticket, id] = *silent_.begin();
    read(id);
    if (!connections_[id].fd) {
      return true;
    }
    if (connections_[id].ticket == ticket) {
      drop(id);
      return true;
    }
  }
  return false;
}

std::optional<TimePoint> SessionSockets::next_deadline() const {
  const auto answer = admissions_.next_deadline();
  const auto accept = accept_pause_.until();
  return answer && accept ? std::min(*answer, *accept) : answer ? answer : accept;
}

void SessionSockets::expire(TimePoint now) {
  admissions_.expire(now);
  if (accept_pause_.until() && *accept_pause_.until() <= now) {
    accept_again();
  }
}

void SessionSockets::read(SessionId id) {
  const bool is_first = connections_[id].standing != Standing::client;
  const bool must_ask = admissions_.asks() && connections_[id].standing == Standing::silent;
  const std::size_t most = must_ask ? std::min(kReadBytes, admissions_.first_bytes()) : kReadBytes;
  const auto count = ::recv(connections_[id].fd.get(), buffer_.get(), most, 0);
  if (count > 0) {
    const std::string_view bytes(buffer_.get(), static_cast<std::size_t>(count));
    if (is_first) [[unlikely]] {
      take_first_bytes(id, bytes);
      return;
    }
    core_.receive(id, bytes);
    flush(id);
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    drop(id);
  }
}

void SessionSockets::take_first_bytes(SessionId id, std::string_view bytes) {
  const bool is_new = connections_[id].standing == Standing::silent;
  if (is_new && is_node(bytes)) {
    give_away(id, bytes);
    return;
  }
  if (is_new && admissions_.asks()) {
    ask(id, bytes);
    return;
  }
  core_.receive(id, bytes);
  if (core_.greeted(id)) {
    set_standing(id, Standing::client);
  }
  flush(id);
}

// While the query is pending, the socket is not read and nothing is sent; further data stays in the
// kernel. Only hangups are watched, so that the connection can be dropped.
void SessionSockets::ask(SessionId id, std::string_view bytes) {
  Connection& connection = connections_[id];
  set_standing(id, Standing::asking);
  connection.armed = EPOLLRDHUP;
  control(EPOLL_CTL_MOD, connection.fd.get(), EPOLLRDHUP, tag_of(id, connection.generation));
  admissions_.ask(connection.ticket,
                  connection.fd.get(),
                  steady_now(),
                  [this, id, first = std::string(bytes)](const Result<void>& answer) {
                    take_answer(id, first, answer);
                  });
}

void SessionSockets::take_answer(SessionId id,
                                 std::string_view first_bytes,
                                 const Result<void>& answer) {
  if (answer) {
    set_standing(id, Standing::admitted);
    take_first_bytes(id, first_bytes);
    flush_touched();
    return;
  }
  const auto text =
      admissions_.note_refusal(connections_[id].fd.get(), answer.error(), steady_now());
  if (notice_ && text) {
    notice_(*text);
  }
  drop(id);
}

void SessionSockets::set_standing(SessionId id, Standing standing) {
  Connection& connection = connections_[id];
  silent_.erase(connection.ticket);
  admissions_.forget(connection.ticket);
  connection.standing = standing;
  connection.ticket = ++last_ticket_;
  if (standing == Standing::silent || standing == Standing::admitted) {
    silent_.emplace(connection.ticket, id);
  }
}

bool SessionSockets::is_node(std::string_view first_bytes) const {
  return static_cast<std::uint8_t>(first_bytes.front()) == kRoundDialect && adopter_;
}

void SessionSockets::give_away(SessionId id, std::string_view bytes) {
  UniqueFd fd = std::move(connections_[id].fd);
  set_standing(id, Standing::client);  // no longer a silent connection
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
  // Flushing may serve held-back requests, which may affect other sessions.
  for (auto touched = core_.take_touched(); !touched.empty(); touched = core_.take_touched()) {
    for (const SessionId id : touched) {
      if (connections_[id].fd) {
        flush(id);
      }
    }
  }
  arm_work();
}

// Makes epoll report the core's pending work like a ready socket, so that both take turns.
void SessionSockets::arm_work() {
  if (core_.has_work() != work_armed_) {
    work_armed_ = !work_armed_;
    control(EPOLL_CTL_MOD, work_.get(), work_armed_ ? std::uint32_t{EPOLLIN} : 0U, kWorkTag);
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
  set_standing(id, Standing::client);
  connections_[id].fd.reset();
  core_.forget(id);
  accept_again();
}

void SessionSockets::control(int operation, int fd, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  // This fails only if memory or the limit on epoll watches is exhausted, and neither is
  // recoverable.
  MUSTER_CHECK(::epoll_ctl(epoll_.get(), operation, fd, &event) == 0);
}

}  // namespace muster
