// SPDX-License-Identifier: Apache-2.0
// Incoming connections of LinkSockets: listeners, admission, and resource limits for strangers.
#include "rendezvous/node/link_sockets.hpp"
#include "rendezvous/server/listener.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace muster {
namespace {

// Maximum number of connections accepted per event, so that a flood does not delay active links.
constexpr int kAcceptsAtOnce = 64;

}  // namespace

// -- listeners ---------------------------------------------------------------------------------

void LinkSockets::add_listener(UniqueFd listener) {
  const int fd = listener.get();
  listeners_.push_back({.fd = std::move(listener)});
  control(EPOLL_CTL_ADD, fd, EPOLLIN, kListenerBit | static_cast<std::uint64_t>(fd));
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
          kListenerBit | static_cast<std::uint64_t>(fd));
}

void LinkSockets::close_listeners() {
  listeners_.clear();
  static_cast<void>(accept_pause_.end());
}

void LinkSockets::accept_from(int listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int why = fd ? 0 : errno;
    if (fd) {
      static_cast<void>(take_in(std::move(fd)));
    } else if (is_shortage(why)) {
      if (!has_backlog(listener)) {
        return;
      }
      if (!make_room()) {
        pause_accept(why);
        return;
      }
    } else if (why == EAGAIN) {
      return;
    }
    // Other errors, such as ECONNABORTED, mean that a connection died in the backlog.
  }
}

void LinkSockets::pause_accept(int why) {
  const auto text = accept_pause_.begin(now_, why);
  for (const Listener& listener : listeners_) {
    watch(listener, false);
  }
  if (notice_ && text) {
    notice_(*text);
  }
}

void LinkSockets::resume_accept() {
  if (accept_pause_.end()) {
    for (const Listener& listener : listeners_) {
      watch(listener, true);
    }
  }
}

// -- strangers ---------------------------------------------------------------------------------

Link& LinkSockets::take_in(UniqueFd fd) {
  const std::size_t most = std::min(limits_.strangers, quarter_of_descriptors());
  while (strangers_.size() + admissions_.size() >= most) {
    if (strangers_.empty()) {
      admissions_.refuse_oldest();
    } else {
      static_cast<void>(look_at_oldest_stranger());
    }
  }
  // Accepted links have even ids, because the core numbers the links that it opens with odd ones.
  Link& link = add_link(std::exchange(next_id_, next_id_ + 2), RoundDecoder::Side::accepted);
  link.fd = std::move(fd);
  link.state = LinkState::stranger;
  strangers_.insert(link.id);
  set_deadline(link, now_ + limits_.hello);
  link.armed = EPOLLIN;
  control(EPOLL_CTL_ADD, link.fd.get(), link.armed, link.id);
  return link;
}

void LinkSockets::adopt(TimePoint now, UniqueFd fd, std::string_view bytes) {
  now_ = now;
  take_first_bytes(take_in(std::move(fd)), bytes);
}

// Strangers never displace nodes of the job. Lingering links may be closed, because they have sent
// everything and only wait for the peer to close. Returns true once a descriptor is free.
bool LinkSockets::make_room() {
  if (!lingering_.empty()) {
    bury(*links_.at(*lingering_.begin()));
    return true;
  }
  while (!strangers_.empty()) {
    if (look_at_oldest_stranger()) {
      return true;
    }
  }
  if (admissions_.size() == 0) {
    return false;
  }
  admissions_.refuse_oldest();
  return true;
}

// If many connections arrived at once, the oldest stranger's Hello may still be unread in the
// socket. So read again, and close the link only if it is still a stranger. Returns true if the
// link was closed.
bool LinkSockets::look_at_oldest_stranger() {
  Link& link = *links_.at(*strangers_.begin());
  if (link.state == LinkState::asking) {
    begin_admitted(link);
  } else {
    read(link);
  }
  if (link.state == LinkState::stranger) {
    bury(link);
  }
  return link.state == LinkState::dead;
}

// -- admission ---------------------------------------------------------------------------------

void LinkSockets::take_first_bytes(Link& link, std::string_view bytes) {
  link.admitted = !admissions_.asks();
  if (link.admitted) {
    take_bytes(link, bytes);
  } else {
    ask(link, bytes);
  }
}

// While the query is pending, the socket is not read and nothing is sent. The socket is watched
// only for a hangup, so that the link can be dropped.
void LinkSockets::ask(Link& link, std::string_view bytes) {
  link.state = LinkState::asking;
  link.input.assign(bytes);
  note_input(link);
  if (link.state == LinkState::dead) {  // the limit on buffered bytes was exceeded
    return;
  }
  // The admission queue has its own limits on the number of links and on their waiting time.
  strangers_.erase(link.id);
  set_deadline(link, std::nullopt);
  arm(link);
  admissions_.ask(link.id, link.fd.get(), now_, [this, id = link.id](const Result<void>& answer) {
    take_answer(id, answer);
  });
}

// This callback may run at any time, even outside serve(), so it leaves the decoding to the next
// serve(). To trigger that call, arm() polls the socket for writability, which epoll reports
// immediately.
void LinkSockets::take_answer(LinkId id, const Result<void>& answer) {
  Link& link = *links_.at(id);
  if (answer) {
    link.admitted = true;
    strangers_.insert(id);
    arm(link);
    return;
  }
  const auto text = admissions_.note_refusal(link.fd.get(), answer.error(), now_);
  if (notice_ && text) {
    notice_(*text);
  }
  bury(link);
}

void LinkSockets::begin_admitted(Link& link) {
  link.state = LinkState::stranger;
  set_deadline(link, now_ + limits_.hello);
  arm(link);
  // Take the bytes out of `input`, because decode() would append them to it again.
  decode(link, std::exchange(link.input, {}));
}

}  // namespace muster
