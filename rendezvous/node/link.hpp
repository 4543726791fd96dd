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

// Unsent output, in frames that several links may share.
class LinkOutput {
 public:
  void push(SharedFrame frame);

  [[nodiscard]] bool empty() const { return first_ == frames_.size(); }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Sends what the kernel accepts. Returns 0 or the errno.
  [[nodiscard]] int flush(int fd);

  // The queue must not be empty. front() returns the unsent part of the first frame. drop() removes
  // bytes that were sent or moved elsewhere.
  [[nodiscard]] std::string_view front() const;
  void drop(std::size_t count);
  [[nodiscard]] SharedFrame take_front();

 private:
  std::vector<SharedFrame> frames_;
  std::size_t first_ = 0;  // the first frame that is not completely sent
  std::size_t sent_ = 0;   // number of bytes of that frame that are already sent
  std::size_t bytes_ = 0;
};

enum class LinkState : std::uint8_t {
  connecting,
  stranger,   // accepted; no Hello received yet
  asking,     // has sent its first bytes; admission is pending
  open,       // known to the core
  closing,    // no longer used; output is still being sent
  lingering,  // everything is sent; waits for the peer to close, to avoid losing data
  dead,
};

struct Link {
  Link(LinkId link_id, RoundDecoder bytes) : id(link_id), decoder(std::move(bytes)) {}

  LinkId id;
  UniqueFd fd;
  LinkState state = LinkState::connecting;
  RoundDecoder decoder;
  bool admitted = false;          // also true if admission is off
  bool greeted = false;           // both sides agree on the protocol: frames may be sent
  LinkOutput waiting;             // output held back until the handshakes complete
  Proofs offered = Proofs::none;  // the proofs in our introduction
  Proofs proof = Proofs::none;    // the offered proof that the link's TLS session uses
  // Set for a stranger that retries with another key if the current key fails.
  bool comes_again = false;
  const JobTrust* trust = nullptr;          // the key of the link's TLS session, once agreed
  std::shared_ptr<const JobTrust> learned;  // owns `trust` if the key is shared
  std::unique_ptr<SecureChannel> channel;   // null for plaintext and before the handshake
  bool sealed = false;                      // all further input is TLS
  bool awaits_turn = false;                 // waits for a handshake slot
  bool refused = false;
  std::string input;     // received bytes of an incomplete frame
  std::size_t held = 0;  // bytes of `input` that count toward the limit for all links
  LinkOutput output;
  std::uint32_t armed = 0;                  // the registered epoll events
  bool paused = false;                      // reading is paused
  bool touched = false;                     // has new output in this turn
  std::optional<TimePoint> deadline;        // deadline of the current state, if any
  std::vector<SocketAddress> alternatives;  // addresses not tried yet, in reverse order
  Duration timeout{};                       // timeout for all addresses together
  TimePoint timeout_ends{};
};

// True if there is data that can be sent now.
[[nodiscard]] inline bool has_output(const Link& link) {
  const bool can_seal = !link.channel || link.channel->state() == SecureChannel::State::open;
  return !link.output.empty() || (link.greeted && can_seal && !link.waiting.empty());
}

// Moves a limited number of waiting frames to the output, as plaintext or encrypted.
void release_some(Link& link);

// True if the link's input should be processed.
[[nodiscard]] inline bool is_live(const Link& link) {
  return link.state == LinkState::stranger || link.state == LinkState::open;
}

// The addresses in `hosts` that can be dialled from here.
[[nodiscard]] std::vector<SocketAddress> addresses_of(const std::vector<std::string>& hosts,
                                                      std::uint16_t port);

// Classifies an errno that ended a connection.
[[nodiscard]] LinkEnd end_of(int errno_value);

// Sets the time after which dead connections are detected, in both directions.
void set_user_timeout(int fd, Duration timeout);

}  // namespace muster
