// SPDX-License-Identifier: Apache-2.0
// Output of LinkSockets: unsent data, limits per turn, and backpressure.
#include "rendezvous/node/link_sockets.hpp"

#include <string>
#include <utility>

namespace muster {
namespace {

// Maximum number of bytes sent in one turn. Without this limit, sending a long list to thousands of
// nodes would delay the reading of their heartbeats.
constexpr std::size_t kSendAtOnce = 16UL * 1024 * 1024;

std::size_t unsent_of(const Link& link) {
  return link.output.bytes() + link.waiting.bytes();
}

}  // namespace

void LinkSockets::send(LinkId id, SharedFrame frame) {
  const auto found = links_.find(id);
  // The link may have failed while its LinkClosed is still queued for the core.
  if (found == links_.end() || found->second->state != LinkState::open) {
    return;
  }
  Link& link = *found->second;
  link.waiting.push(std::move(frame));
  if (link.greeted) {
    touch(link);
  }
}

void LinkSockets::pause(LinkId id, bool paused) {
  const auto found = links_.find(id);
  if (found != links_.end() && found->second->state == LinkState::open) {
    found->second->paused = paused;
    arm(*found->second);
  }
}

std::size_t LinkSockets::unsent(LinkId id) const {
  const auto found = links_.find(id);
  if (found == links_.end()) {
    return 0;
  }
  return unsent_of(*found->second);
}

void LinkSockets::set_drained(std::size_t mark, std::function<void(LinkId)> drained) {
  drained_mark_ = mark;
  drained_ = std::move(drained);
}

void LinkSockets::flush(Link& link) {
  if (link.state == LinkState::dead || link.state == LinkState::connecting) {
    return;
  }
  const std::size_t before = unsent_of(link);
  // Once the limit is reached, arm() polls the socket for writability, and a later turn continues.
  const int error = sent_ < kSendAtOnce ? send_some(link) : 0;
  const std::size_t unsent = unsent_of(link);
  if (error != 0) {
    fail(link, end_of(error), errno_text(error));
  } else if (unsent > limits_.unsent_bytes) {
    fail(link,
         LinkEnd::unreachable,
         "it is not reading from the connection; " + std::to_string(unsent) + " bytes are unsent");
  } else if (link.state == LinkState::closing && !has_output(link)) {
    // Frames held back by a handshake are dropped, because a closing link reads no input.
    start_lingering(link);
  } else {
    arm(link);
    if (drained_ && before > drained_mark_ && unsent <= drained_mark_) {
      drained_(link.id);
    }
  }
}

// Sends what the kernel accepts. Returns 0 or the errno.
int LinkSockets::send_some(Link& link) {
  int error = 0;
  do {
    if (link.output.empty()) {
      release_some(link);
    }
    const std::size_t before = link.output.bytes();
    error = link.output.flush(link.fd.get());
    sent_ += before - link.output.bytes();
  } while (error == 0 && link.output.empty() && has_output(link) && sent_ < kSendAtOnce);
  return error;
}

}  // namespace muster
