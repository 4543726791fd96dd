// SPDX-License-Identifier: Apache-2.0
// Link: one connection between nodes with what waits to be sent and what has not been decoded yet.
// It only moves bytes; LinkSockets decides when. Resource; one thread.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "io/socket_address.hpp"
#include "rendezvous/round/node_events.hpp"
#include "rendezvous/wire/round_decoder.hpp"
#include "rendezvous/wire/round_encoder.hpp"
#include "trust/secure_channel.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// What waits to be sent: frames that many links share.
class LinkOutput {
 public:
  void push(SharedFrame frame);

  [[nodiscard]] bool empty() const { return first_ == frames_.size(); }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Sends what the kernel takes; 0 or the errno.
  [[nodiscard]] int flush(int fd);

  // Of a queue that is not empty: what is unsent of its first frame, and that so much of it is
  // sent, or is somebody else's now.
  [[nodiscard]] std::string_view front() const;
  void drop(std::size_t count);
  [[nodiscard]] SharedFrame take_front();

 private:
  std::vector<SharedFrame> frames_;
  std::size_t first_ = 0;  // the first one that is not wholly sent
  std::size_t sent_ = 0;   // so much of that one is gone
  std::size_t bytes_ = 0;
};

enum class LinkState : std::uint8_t {
  connecting,
  stranger,   // accepted; no Hello yet
  asking,     // its first bytes are here; the answer whether it is admitted is not
  open,       // the core knows it
  closing,    // nobody listens to it any more; its output is still to go
  lingering,  // all is out; the other side closes first, or what it has not read might be lost
  dead,
};

struct Link {
  Link(LinkId link_id, RoundDecoder bytes) : id(link_id), decoder(std::move(bytes)) {}

  LinkId id;
  UniqueFd fd;
  LinkState state = LinkState::connecting;
  RoundDecoder decoder;
  bool admitted = false;                    // or nobody has to be asked
  bool greeted = false;                     // both sides agree on what this is: frames may be sent
  LinkOutput waiting;                       // for that, or to be sealed
  Proofs offered = Proofs::none;            // in our introduction
  Proofs proof = Proofs::none;              // the one of them that its TLS uses
  bool comes_again = false;                 // a stranger with another key, if this one fails
  const JobTrust* trust = nullptr;          // the key of its TLS, once that is agreed upon
  std::shared_ptr<const JobTrust> learned;  // that key, where its node has told it
  std::unique_ptr<SecureChannel> channel;   // none: in the clear, or not begun
  bool sealed = false;                      // all that is read from now on is TLS
  bool awaits_turn = false;                 // too many others are in the middle of their handshakes
  bool refused = false;
  std::string input;     // half a frame
  std::size_t held = 0;  // so much of it is counted
  LinkOutput output;
  std::uint32_t armed = 0;                  // the events that epoll reports
  bool paused = false;                      // nothing is read from it
  bool touched = false;                     // has new output in this turn
  std::optional<TimePoint> deadline;        // of connecting, a stranger, lingering
  std::vector<SocketAddress> alternatives;  // still to be tried, the next one last
  Duration timeout{};                       // for all of them together
  TimePoint timeout_ends{};
};

// Something could be sent now.
[[nodiscard]] inline bool has_output(const Link& link) {
  const bool can_seal = !link.channel || link.channel->state() == SecureChannel::State::open;
  return !link.output.empty() || (link.greeted && can_seal && !link.waiting.empty());
}

// Moves frames that wait into the output: as they are, or as TLS, a little at a time.
void release_some(Link& link);

// What it says is for us.
[[nodiscard]] inline bool is_live(const Link& link) {
  return link.state == LinkState::stranger || link.state == LinkState::open;
}

// Those of these numeric addresses that can be dialled from here.
[[nodiscard]] std::vector<SocketAddress> addresses_of(const std::vector<std::string>& hosts,
                                                      std::uint16_t port);

// How a connection ended, from its errno, and as text.
[[nodiscard]] LinkEnd end_of(int errno_value);

// For both directions: dead connections are noticed after so long.
void set_user_timeout(int fd, Duration timeout);

}  // namespace muster
