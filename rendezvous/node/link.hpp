// SPDX-License-Identifier: Apache-2.0
// Link: one connection between nodes, with its unsent output and undecoded input. It only moves
// bytes; LinkSockets decides when. Resource; one thread.
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

// Unsent output: frames that several links may share.
class LinkOutput {
 public:
  void push(SharedFrame frame);

  [[nodiscard]] bool empty() const { return first_ == frames_.size(); }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Sends what the kernel accepts. Returns 0 or the errno.
  [[nodiscard]] int flush(int fd);

  // For a non-empty queue: front() is the unsent part of the first frame. drop() removes bytes that
  // were sent or moved elsewhere.
  [[nodiscard]] std::string_view front() const;
  void drop(std::size_t count);
  [[nodiscard]] SharedFrame take_front();

 private:
  std::vector<SharedFrame> frames_;
  std::size_t first_ = 0;  // the first frame not completely sent
  std::size_t sent_ = 0;   // bytes of it already sent
  std::size_t bytes_ = 0;
};

enum class LinkState : std::uint8_t {
  connecting,
  stranger,   // accepted, no Hello yet
  asking,     // has sent its first bytes; admission is pending
  open,       // known to the core
  closing,    // no longer used; its output is still being sent
  lingering,  // all is sent; the peer must close first, or unread data could be lost
  dead,
};

struct Link {
  Link(LinkId link_id, RoundDecoder bytes) : id(link_id), decoder(std::move(bytes)) {}

  LinkId id;
  UniqueFd fd;
  LinkState state = LinkState::connecting;
  RoundDecoder decoder;
  bool admitted = false;                    // or admission is off
  bool greeted = false;                     // both sides agree on the protocol: frames may be sent
  LinkOutput waiting;                       // until greeted, or until encrypted
  Proofs offered = Proofs::none;            // in our introduction
  Proofs proof = Proofs::none;              // the one of these that its TLS uses
  bool comes_again = false;                 // a stranger that retries with another key if this one
                                            // fails
  const JobTrust* trust = nullptr;          // the key of its TLS, once agreed
  std::shared_ptr<const JobTrust> learned;  // that key, if the peer sent it
  std::unique_ptr<SecureChannel> channel;   // null: plaintext, or not started
  bool sealed = false;                      // all further input is TLS
  bool awaits_turn = false;                 // waits for a handshake slot
  bool refused = false;
  std::string input;     // a partial frame
  std::size_t held = 0;  // bytes of it that are counted
  LinkOutput output;
  std::uint32_t armed = 0;                  // the registered epoll events
  bool paused = false;                      // not read
  bool touched = false;                     // has new output in this turn
  std::optional<TimePoint> deadline;        // for connecting, strangers, lingering
  std::vector<SocketAddress> alternatives;  // addresses not tried yet, the next one last
  Duration timeout{};                       // for all addresses together
  TimePoint timeout_ends{};
};

// True if there is data that can be sent now.
[[nodiscard]] inline bool has_output(const Link& link) {
  const bool can_seal = !link.channel || link.channel->state() == SecureChannel::State::open;
  return !link.output.empty() || (link.greeted && can_seal && !link.waiting.empty());
}

// Moves a limited number of waiting frames to the output, as plaintext or as TLS.
void release_some(Link& link);

// True if its input should be processed.
[[nodiscard]] inline bool is_live(const Link& link) {
  return link.state == LinkState::stranger || link.state == LinkState::open;
}

// The addresses among these that can be dialled from here.
[[nodiscard]] std::vector<SocketAddress> addresses_of(const std::vector<std::string>& hosts,
                                                      std::uint16_t port);

// Classifies an errno that ended a connection.
[[nodiscard]] LinkEnd end_of(int errno_value);

// For both directions: dead connections are detected after this time.
void set_user_timeout(int fd, Duration timeout);

}  // namespace muster
