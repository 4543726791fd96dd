// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/link_sockets.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace muster {
namespace {

constexpr std::size_t kReadBytes = 128UL * 1024;
constexpr int kEventsAtOnce = 256;
constexpr int kAcceptsAtOnce = 64;

// Bytes sent in one turn. A long list for thousands would otherwise keep us from reading their
// signs of life.
constexpr std::size_t kSendAtOnce = 16UL * 1024 * 1024;

// How long new connections wait in the backlog before we look for a free descriptor again.
constexpr Duration kAcceptRetry = std::chrono::milliseconds(100);

// Tags of listeners have the upper bit, which no link's id reaches; the rest is the descriptor.
constexpr std::uint64_t kListenerBit = 1ULL << 63U;

std::uint64_t tag_of_listener(int fd) {
  return kListenerBit | static_cast<std::uint64_t>(fd);
}

bool is_live(const Link& link) {
  return link.state == LinkState::stranger || link.state == LinkState::open;
}

std::uint32_t wanted_events(const Link& link) {
  const bool out = link.state == LinkState::connecting || !link.output.empty();
  const bool in = is_live(link) || link.state == LinkState::lingering;
  return (in ? std::uint32_t{EPOLLIN} : 0U) | (out ? std::uint32_t{EPOLLOUT} : 0U);
}

}  // namespace

Result<std::unique_ptr<LinkSockets>> LinkSockets::open(const LinkLimits& limits, Sink sink) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) {
    return std::unexpected(system_error("making an epoll set", errno));
  }
  return std::unique_ptr<LinkSockets>(new LinkSockets(limits, std::move(sink), std::move(epoll)));
}

LinkSockets::LinkSockets(const LinkLimits& limits, Sink sink, UniqueFd epoll)
    : limits_(limits),
      sink_(std::move(sink)),
      epoll_(std::move(epoll)),
      buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)) {}

// -- listeners ---------------------------------------------------------------------------------

void LinkSockets::add_listener(UniqueFd listener) {
  const int fd = listener.get();
  listeners_.push_back({.fd = std::move(listener)});
  control(EPOLL_CTL_ADD, fd, EPOLLIN, tag_of_listener(fd));
}

void LinkSockets::lend_listener(int fd, bool lent) {
  for (Listener& listener : listeners_) {
    if (listener.fd.get() == fd) {
      listener.lent = lent;
      watch(listener, true);
    }
  }
}

void LinkSockets::watch(const Listener& listener, bool wanted) {
  const int fd = listener.fd.get();
  control(EPOLL_CTL_MOD,
          fd,
          wanted && !listener.lent ? std::uint32_t{EPOLLIN} : 0U,
          tag_of_listener(fd));
}

void LinkSockets::close_listeners() {
  listeners_.clear();
  accept_again_.reset();
}

void LinkSockets::accept_from(int listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      static_cast<void>(take_in(std::move(fd)));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pause_accept();
      return;
    } else if (errno == EAGAIN) {
      return;
    }
    // Anything else (ECONNABORTED, EPROTO …) concerns a connection that died in the queue.
  }
}

// Without a free descriptor the listeners would stay readable and keep the loop busy for nothing.
void LinkSockets::pause_accept() {
  drop_oldest_stranger();
  accept_again_ = now_ + kAcceptRetry;
  for (const Listener& listener : listeners_) {
    watch(listener, false);
  }
}

void LinkSockets::resume_accept() {
  accept_again_.reset();
  for (const Listener& listener : listeners_) {
    watch(listener, true);
  }
}

// -- new links ---------------------------------------------------------------------------------

Link& LinkSockets::add_link(LinkId id, RoundDecoder::Side side) {
  return *links_.emplace(id, std::make_unique<Link>(id, side)).first->second;
}

Link& LinkSockets::take_in(UniqueFd fd) {
  if (strangers_.size() >= limits_.strangers) {
    drop_oldest_stranger();
  }
  Link& link = add_link(std::exchange(next_id_, next_id_ + 2), RoundDecoder::Side::accepted);
  link.fd = std::move(fd);
  link.state = LinkState::stranger;
  strangers_.insert(link.id);
  set_deadline(link, now_ + limits_.hello);
  link.armed = EPOLLIN;
  control(EPOLL_CTL_ADD, link.fd.get(), link.armed, link.id);
  return link;
}

void LinkSockets::drop_oldest_stranger() {
  if (!strangers_.empty()) {
    bury(*links_.at(*strangers_.begin()));
  }
}

void LinkSockets::adopt(UniqueFd fd, std::string_view bytes) {
  decode(take_in(std::move(fd)), bytes);
}

void LinkSockets::connect(LinkId id, std::vector<SocketAddress> addresses, Duration patience) {
  Link& link = add_link(id, RoundDecoder::Side::dialled);
  link.decoder.trust();
  std::ranges::reverse(addresses);
  link.alternatives = std::move(addresses);
  link.patience = patience;
  to_dial_.push_back(id);
}

void LinkSockets::try_next_address(Link& link) {
  int error = EADDRNOTAVAIL;
  while (!link.alternatives.empty()) {
    const auto left = static_cast<int>(link.alternatives.size());
    Dialled dialled = dial(link.alternatives.back(), source_);
    link.alternatives.pop_back();
    error = dialled.error;
    if (error == EINPROGRESS) {
      link.fd = std::move(dialled.fd);
      link.armed = EPOLLOUT;
      control(EPOLL_CTL_ADD, link.fd.get(), link.armed, link.id);
      set_deadline(link, now_ + std::max(link.patience_ends - now_, Duration{}) / left);
      return;
    }
  }
  fail(link, end_of(error), errno_words(error));
}

void LinkSockets::take_outcome(Link& link) {
  const int error = outcome_of_dial(link.fd.get());
  if (error == EINPROGRESS) {
    return;
  }
  if (error == 0) {
    link.state = LinkState::open;
    set_deadline(link, std::nullopt);
    set_user_timeout(link.fd.get(), limits_.user_timeout);
    link.output.push(preamble_);
    touch(link);
    sink_(LinkOpened{link.id});
  } else if (!link.alternatives.empty()) {
    try_next_address(link);
  } else {
    fail(link, end_of(error), errno_words(error));
  }
}

// -- bytes in ----------------------------------------------------------------------------------

bool LinkSockets::serve(TimePoint now) {
  now_ = now;
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    handle(events[static_cast<std::size_t>(i)]);
  }
  return count == kEventsAtOnce;
}

void LinkSockets::handle(const epoll_event& event) {
  if ((event.data.u64 & kListenerBit) != 0) {
    accept_from(static_cast<int>(event.data.u64 & ~kListenerBit));
    return;
  }
  const auto found = links_.find(event.data.u64);
  if (found == links_.end() || found->second->state == LinkState::dead) {
    return;
  }
  Link& link = *found->second;
  if (link.state == LinkState::connecting) {
    take_outcome(link);
    return;
  }
  if (link.state == LinkState::lingering) {
    discard(link);
    return;
  }
  if (is_live(link) && (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    read(link);
  }
  if (link.state != LinkState::dead && (event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
    touch(link);
  }
}

void LinkSockets::read(Link& link) {
  const auto count = ::recv(link.fd.get(), buffer_.get(), kReadBytes, 0);
  if (count > 0) {
    decode(link, {buffer_.get(), static_cast<std::size_t>(count)});
  } else if (count == 0) {
    fail(link, LinkEnd::closed, "the other side closed the connection");
  } else if (errno != EAGAIN && errno != EINTR) {
    const int error = errno;
    fail(link, end_of(error), errno_words(error));
  }
}

void LinkSockets::discard(Link& link) {
  const auto count = ::recv(link.fd.get(), buffer_.get(), kReadBytes, 0);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
    bury(link);
  }
}

// Whole messages are used from where they were read to; only half a frame is kept.
void LinkSockets::decode(Link& link, std::string_view bytes) {
  const bool had_input = !link.input.empty();
  if (had_input) {
    link.input.append(bytes);
    bytes = link.input;
  }
  while (is_live(link)) {
    RoundMessage message;
    std::size_t consumed = 0;
    const auto status = link.decoder.next(bytes, message, consumed);
    bytes.remove_prefix(consumed);
    if (status == RoundDecoder::Status::message) {
      take_message(link, std::move(message));
      continue;
    }
    if (status == RoundDecoder::Status::broken) {
      fail(link, LinkEnd::broken, link.decoder.fault());
    } else if (status == RoundDecoder::Status::foreign) {
      refuse_version_of(link);
    }
    break;
  }
  if (!is_live(link) || bytes.empty()) {
    std::string().swap(link.input);
  } else if (had_input) {
    link.input.erase(0, link.input.size() - bytes.size());
  } else {
    link.input.assign(bytes);
  }
  held_ += link.input.size();
  held_ -= std::exchange(link.held, link.input.size());
  if (held_ > limits_.held_bytes) {
    fail(link, LinkEnd::broken, "all nodes together leave too many bytes of half messages");
  }
}

void LinkSockets::take_message(Link& link, RoundMessage message) {
  if (link.state == LinkState::stranger) {
    strangers_.erase(link.id);
    link.state = LinkState::open;
    set_deadline(link, std::nullopt);
    set_user_timeout(link.fd.get(), limits_.user_timeout);
    link.output.push(preamble_);
    touch(link);
    sink_(LinkAccepted{.link = link.id, .from = peer_address(link.fd.get()).host()});
  }
  if (link.state == LinkState::open) {
    sink_(MessageReceived{.link = link.id,
                          .message = std::make_shared<const RoundMessage>(std::move(message))});
  }
}

void LinkSockets::refuse_version_of(Link& link) {
  strangers_.erase(link.id);
  link.output.push(std::make_shared<const std::string>(refuse_version(link.decoder.version())));
  link.state = LinkState::closing;
  set_deadline(link, now_ + limits_.linger);
  touch(link);
}

// -- bytes out ---------------------------------------------------------------------------------

void LinkSockets::send(LinkId id, SharedFrame frame) {
  const auto found = links_.find(id);
  if (found != links_.end() && found->second->state == LinkState::open) {
    found->second->output.push(std::move(frame));
    touch(*found->second);
  }
}

void LinkSockets::trust(LinkId id) {
  if (const auto found = links_.find(id); found != links_.end()) {
    found->second->decoder.trust();
  }
}

void LinkSockets::close(LinkId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) {
    return;
  }
  Link& link = *found->second;
  if (link.state == LinkState::open) {
    link.state = LinkState::closing;
    set_deadline(link, now_ + limits_.linger);
    touch(link);
  } else if (link.state == LinkState::connecting || link.state == LinkState::stranger) {
    bury(link);
  }
}

void LinkSockets::close_all() {
  for (const auto& [id, link] : links_) {
    close(id);
  }
}

void LinkSockets::touch(Link& link) {
  if (!std::exchange(link.touched, true)) {
    touched_.push_back(link.id);
  }
}

void LinkSockets::flush(Link& link) {
  if (link.state == LinkState::dead || link.state == LinkState::connecting) {
    return;
  }
  const std::size_t before = link.output.bytes();
  const bool may_send = before == 0 || sent_ < kSendAtOnce;
  const int error = may_send ? link.output.flush(link.fd.get()) : 0;
  sent_ += before - link.output.bytes();
  if (error != 0) {
    fail(link, end_of(error), errno_words(error));
  } else if (link.output.bytes() > limits_.unsent_bytes) {
    fail(link,
         LinkEnd::unreachable,
         "it does not read: " + std::to_string(link.output.bytes()) + " bytes are unsent");
  } else if (link.state == LinkState::closing && link.output.empty()) {
    start_lingering(link);
  } else {
    arm(link);
  }
}

// A socket that is closed with unread input resets the connection, and what is on its way to the
// other side would be lost. So we end our half, and wait for the other side to end its own.
void LinkSockets::start_lingering(Link& link) {
  ::shutdown(link.fd.get(), SHUT_WR);
  link.state = LinkState::lingering;
  set_deadline(link, now_ + limits_.linger);
  arm(link);
}

void LinkSockets::arm(Link& link) {
  const std::uint32_t events = wanted_events(link);
  if (events != link.armed) {
    link.armed = events;
    control(EPOLL_CTL_MOD, link.fd.get(), events, link.id);
  }
}

// -- time and ends -----------------------------------------------------------------------------

void LinkSockets::settle(TimePoint now) {
  now_ = now;
  sent_ = 0;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    expire(*links_.at(deadlines_.begin()->second));
  }
  while (!to_dial_.empty() || !touched_.empty()) {
    for (const LinkId id : std::exchange(to_dial_, {})) {
      Link& link = *links_.at(id);
      if (link.state == LinkState::connecting) {
        link.patience_ends = now + link.patience;
        try_next_address(link);
      }
    }
    for (const LinkId id : std::exchange(touched_, {})) {
      Link& link = *links_.at(id);
      link.touched = false;
      flush(link);
    }
  }
  for (const LinkId id : std::exchange(dead_, {})) {
    links_.erase(id);
  }
  if (accept_again_ && *accept_again_ <= now) {
    resume_accept();
  }
}

std::optional<TimePoint> LinkSockets::next_deadline() const {
  std::optional<TimePoint> next = accept_again_;
  if (!deadlines_.empty()) {
    const TimePoint first = deadlines_.begin()->first;
    next = next ? std::min(*next, first) : first;
  }
  return next;
}

std::string LinkSockets::local_host(LinkId id) const {
  const auto found = links_.find(id);
  return found == links_.end() ? std::string() : local_address(found->second->fd.get()).host();
}

void LinkSockets::set_deadline(Link& link, std::optional<TimePoint> deadline) {
  if (link.deadline) {
    deadlines_.erase({*link.deadline, link.id});
  }
  link.deadline = deadline;
  if (deadline) {
    deadlines_.emplace(*deadline, link.id);
  }
}

void LinkSockets::expire(Link& link) {
  if (link.state != LinkState::connecting) {
    bury(link);
  } else if (!link.alternatives.empty()) {
    try_next_address(link);
  } else {
    fail(link, LinkEnd::unreachable, "no answer");
  }
}

void LinkSockets::fail(Link& link, LinkEnd how, std::string words) {
  const bool known = link.state == LinkState::open || link.state == LinkState::connecting;
  bury(link);
  if (known) {
    sink_(LinkClosed{.link = link.id, .how = how, .words = std::move(words)});
  }
}

// It stays in the map until the end of the turn, since somebody may still look at it.
void LinkSockets::bury(Link& link) {
  if (std::exchange(link.state, LinkState::dead) == LinkState::dead) {
    return;
  }
  strangers_.erase(link.id);
  set_deadline(link, std::nullopt);
  held_ -= std::exchange(link.held, 0);
  std::string().swap(link.input);
  link.fd.reset();
  dead_.push_back(link.id);
}

void LinkSockets::control(int operation, int fd, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  // Fails only without memory, or at the limit of watches, where nothing else could be done.
  MUSTER_CHECK(::epoll_ctl(epoll_.get(), operation, fd, &event) == 0);
}

}  // namespace muster
