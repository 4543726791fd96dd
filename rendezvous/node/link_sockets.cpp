// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/link_sockets.hpp"

#include "base/check.hpp"
#include "io/connect.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace muster {
namespace {

constexpr std::size_t kReadBytes = 128UL * 1024;
constexpr int kEventsAtOnce = 256;

std::uint32_t wanted_events(const Link& link) {
  // In these two states, the socket is not polled for input, because unread input would keep waking
  // the loop.
  if (link.state == LinkState::asking) {
    return link.admitted ? EPOLLOUT : EPOLLRDHUP;
  }
  if (link.awaits_turn) {
    return EPOLLRDHUP;
  }
  const bool out = link.state == LinkState::connecting || has_output(link);
  const bool in = (is_live(link) && !link.paused) || link.state == LinkState::lingering;
  return (in ? std::uint32_t{EPOLLIN} : 0U) | (out ? std::uint32_t{EPOLLOUT} : 0U);
}

}  // namespace

Result<std::unique_ptr<LinkSockets>> LinkSockets::open(const LinkLimits& limits, Sink sink) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) {
    return std::unexpected(system_error("cannot create an epoll set", errno));
  }
  return std::unique_ptr<LinkSockets>(new LinkSockets(limits, std::move(sink), std::move(epoll)));
}

LinkSockets::LinkSockets(const LinkLimits& limits, Sink sink, UniqueFd epoll)
    : limits_(limits),
      sink_(std::move(sink)),
      epoll_(std::move(epoll)),
      buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)) {}

// -- opening links -----------------------------------------------------------------------------

Link& LinkSockets::add_link(LinkId id, RoundDecoder::Side side) {
  return *links_.emplace(id, std::make_unique<Link>(id, RoundDecoder(side, limits_.list_body)))
              .first->second;
}

void LinkSockets::connect(LinkId id, std::vector<SocketAddress> addresses, Duration timeout) {
  Link& link = add_link(id, RoundDecoder::Side::dialled);
  std::ranges::reverse(addresses);
  link.alternatives = std::move(addresses);
  link.timeout = timeout;
  // settle() dials, because an attempt may fail at once and the sink must not be called from here.
  to_dial_.push_back(id);
}

void LinkSockets::try_next_address(Link& link) {
  // Without any address, the link ends as unreachable, which does not prove that the node is dead.
  int error = EADDRNOTAVAIL;
  while (!link.alternatives.empty()) {
    const auto left = static_cast<int>(link.alternatives.size());
    Connecting connecting = start_connect(link.alternatives.back(), {.source = source_});
    link.alternatives.pop_back();
    error = connecting.error;
    if (error == EINPROGRESS) {
      link.fd = std::move(connecting.fd);
      link.armed = EPOLLOUT;
      control(EPOLL_CTL_ADD, link.fd.get(), link.armed, link.id);
      // Each address gets an equal share of the timeout, so that an address that drops packets
      // leaves time for the remaining addresses.
      set_deadline(link, now_ + std::max(link.timeout_ends - now_, Duration{}) / left);
      return;
    }
  }
  fail(link, end_of(error), errno_text(error));
}

void LinkSockets::take_outcome(Link& link) {
  const int error = finish_connect(link.fd.get());
  if (error == EINPROGRESS) {
    return;
  }
  if (error == 0) {
    link.state = LinkState::open;
    set_deadline(link, std::nullopt);
    set_user_timeout(link.fd.get(), limits_.user_timeout);
    // The core may send its Hello now. It stays in `waiting` until the handshake is complete.
    introduce(link);
    sink_(LinkOpened{link.id});
  } else if (!link.alternatives.empty()) {
    try_next_address(link);
  } else {
    fail(link, end_of(error), errno_text(error));
  }
}

// -- input -------------------------------------------------------------------------------------

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
  // An earlier event of this batch may have closed the link, for example to free a descriptor.
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
  if (link.state == LinkState::asking) {
    if (link.admitted) {
      begin_admitted(link);
    } else {
      bury(link);  // the socket is watched only for hangups, so the peer has hung up
    }
    return;
  }
  if (link.awaits_turn) {
    bury(link);  // the socket is watched only for hangups, so the peer has hung up
    return;
  }
  if (is_live(link) && (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    read(link);
  }
  // A closing link is not read, so only a failed send shows that its peer is gone.
  if (link.state != LinkState::dead && (event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
    touch(link);
  }
}

void LinkSockets::read(Link& link) {
  const bool is_first = link.state == LinkState::stranger && !link.admitted;
  // While a peer may still be refused, all but its first bytes stay in the kernel.
  const std::size_t most =
      is_first && admissions_.asks() ? std::min(kReadBytes, admissions_.first_bytes()) : kReadBytes;
  // One read per event, so that a peer that sends a lot does not delay heartbeats on other links.
  const auto count = ::recv(link.fd.get(), buffer_.get(), most, 0);
  if (count > 0) {
    const std::string_view bytes(buffer_.get(), static_cast<std::size_t>(count));
    if (is_first) {
      take_first_bytes(link, bytes);
    } else {
      take_bytes(link, bytes);
    }
  } else if (count == 0) {
    // Call this before fail(), because the log line contains the peer's address and fail() closes
    // the socket.
    note_departure(link);
    fail(link, LinkEnd::closed, "the peer closed the connection");
  } else if (errno != EAGAIN && errno != EINTR) {
    const int error = errno;
    fail(link, end_of(error), errno_text(error));
  }
}

void LinkSockets::discard(Link& link) {
  const auto count = ::recv(link.fd.get(), buffer_.get(), kReadBytes, 0);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
    bury(link);
  }
}

void LinkSockets::take_bytes(Link& link, std::string_view bytes) {
  if (link.sealed) {
    take_sealed(link, bytes);
  } else {
    decode(link, bytes);
  }
}

// Complete messages are decoded without copying; only a partial frame is stored.
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
    if (status == RoundDecoder::Status::introduced) {
      if (link.state == LinkState::stranger) {
        take_introduction(link);
      } else {
        take_reply(link);
      }
      if (link.sealed) {
        // Copy the bytes, because they may point into the input that is released here.
        const std::string rest(bytes);
        std::string().swap(link.input);
        note_input(link);
        take_sealed(link, rest);
        return;
      }
      continue;
    }
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
  // Unlike clear(), swap() frees the memory, so a link without a partial frame holds no buffer.
  if (!is_live(link) || bytes.empty()) {
    std::string().swap(link.input);
  } else if (had_input) {
    link.input.erase(0, link.input.size() - bytes.size());
  } else {
    link.input.assign(bytes);
  }
  note_input(link);
}

void LinkSockets::note_input(Link& link) {
  held_ += link.input.size();
  held_ -= std::exchange(link.held, link.input.size());
  if (held_ > limits_.held_bytes) {
    fail(
        link, LinkEnd::broken, "too many bytes of incomplete messages on all connections together");
  }
}

void LinkSockets::take_message(Link& link, RoundMessage message) {
  // A plaintext message can only be a Refuse. A node that has authenticated another node ignores a
  // plaintext Refuse, because a stranger may now be listening at the address of a former node.
  if (keys_.any() && !link.sealed && keys_.met) {
    fail(link, LinkEnd::broken, "refused by a peer that did not prove that it has the job's token");
    return;
  }
  if (link.state == LinkState::stranger) {
    strangers_.erase(link.id);
    link.state = LinkState::open;
    set_deadline(link, std::nullopt);
    set_user_timeout(link.fd.get(), limits_.user_timeout);
    sink_(LinkAccepted{.link = link.id, .from = peer_address(link.fd.get()).host()});
  }
  if (link.state == LinkState::open) {
    sink_(MessageReceived{.link = link.id,
                          .message = std::make_shared<const RoundMessage>(std::move(message))});
  }
}

void LinkSockets::refuse_version_of(Link& link) {
  // No handshake is possible with another version, but every version can read this Refuse.
  link.output.push(std::make_shared<const std::string>(refuse_version(link.decoder.version())));
  dismiss(link);
}

// Closes a stranger's link as soon as the queued output is sent, or after a short timeout.
void LinkSockets::dismiss(Link& link) {
  strangers_.erase(link.id);
  end_handshake(link);
  link.refused = true;
  link.state = LinkState::closing;
  set_deadline(link, now_ + limits_.refused_linger);
  touch(link);
}

// -- output ------------------------------------------------------------------------------------

void LinkSockets::allow_texts(LinkId id) {
  if (const auto found = links_.find(id); found != links_.end()) {
    found->second->decoder.allow_texts();
  }
}

void LinkSockets::allow_lists(LinkId id) {
  if (const auto found = links_.find(id); found != links_.end()) {
    found->second->decoder.allow_lists();
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
  } else if (link.state == LinkState::connecting || link.state == LinkState::stranger ||
             link.state == LinkState::asking) {
    bury(link);
  }
}

void LinkSockets::close_all() {
  // close() only marks links as dead. settle() erases them, so the iteration stays valid.
  for (const auto& [id, link] : links_) {
    close(id);
  }
}

void LinkSockets::touch(Link& link) {
  // settle() sends the output, so that all frames of a turn share system calls.
  if (!std::exchange(link.touched, true)) {
    touched_.push_back(link.id);
  }
}

// Closing a socket with unread input resets the connection, which would lose data in flight. So
// shut down our half and wait until the peer closes.
void LinkSockets::start_lingering(Link& link) {
  ::shutdown(link.fd.get(), SHUT_WR);
  link.state = LinkState::lingering;
  lingering_.insert(link.id);
  set_deadline(link, now_ + (link.refused ? limits_.refused_linger : limits_.linger));
  arm(link);
}

void LinkSockets::arm(Link& link) {
  const std::uint32_t events = wanted_events(link);
  if (events != link.armed) {
    link.armed = events;
    control(EPOLL_CTL_MOD, link.fd.get(), events, link.id);
  }
}

// -- time and teardown -------------------------------------------------------------------------

void LinkSockets::settle(TimePoint now) {
  now_ = now;
  sent_ = 0;
  admissions_.expire(now);
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    expire(*links_.at(deadlines_.begin()->second));
  }
  // Call this after the deadlines are handled, because expired handshakes free their slots.
  take_turns();
  // Repeat, because the callbacks for a failed or drained link may dial or send again.
  while (!to_dial_.empty() || !touched_.empty()) {
    for (const LinkId id : std::exchange(to_dial_, {})) {
      Link& link = *links_.at(id);
      if (link.state == LinkState::connecting) {
        link.timeout_ends = now + link.timeout;
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
  if (accept_pause_.until() && *accept_pause_.until() <= now) {
    resume_accept();
  }
}

std::optional<TimePoint> LinkSockets::next_deadline() const {
  std::optional<TimePoint> next = accept_pause_.until();
  const auto also = [&next](TimePoint when) { next = std::min(next.value_or(when), when); };
  if (const auto answer = admissions_.next_deadline()) {
    also(*answer);
  }
  if (!deadlines_.empty()) {
    also(deadlines_.begin()->first);
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
  // No event follows, because these are strangers or links that the core has already closed.
  if (link.state != LinkState::connecting) {
    bury(link);
  } else if (!link.alternatives.empty()) {
    try_next_address(link);
  } else {
    fail(link, LinkEnd::unreachable, "no answer");
  }
}

void LinkSockets::fail(Link& link, LinkEnd how, std::string text) {
  if (how == LinkEnd::broken && !link.greeted && link.state == LinkState::open) {
    keys_.munge_fault.clear();  // start again with all proofs
    keys_.failed.erase(peer_address(link.fd.get()).host());
  }
  const bool known = link.state == LinkState::open || link.state == LinkState::connecting;
  bury(link);
  if (known) {
    sink_(LinkClosed{.link = link.id, .how = how, .text = std::move(text)});
  }
}

// The link stays in the map until the turn ends, because callers may still use it.
void LinkSockets::bury(Link& link) {
  if (std::exchange(link.state, LinkState::dead) == LinkState::dead) {
    return;
  }
  strangers_.erase(link.id);
  lingering_.erase(link.id);
  end_handshake(link);
  admissions_.forget(link.id);
  set_deadline(link, std::nullopt);
  held_ -= std::exchange(link.held, 0);
  std::string().swap(link.input);
  link.fd.reset();
  dead_.push_back(link.id);
  // Accepting may have been paused until a descriptor is free.
  resume_accept();
}

void LinkSockets::control(int operation, int fd, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  // This fails only if memory or the limit on epoll watches is exhausted, and neither is
  // recoverable.
  MUSTER_CHECK(::epoll_ctl(epoll_.get(), operation, fd, &event) == 0);
}

}  // namespace muster
