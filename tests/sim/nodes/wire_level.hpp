// SPDX-License-Identifier: Apache-2.0
// Level B of the simulation: how one end of a connection processes bytes. Uses the real encoder and
// decoder, as rendezvous/node does. One per end.
#pragma once

#include "rendezvous/wire/round_decoder.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::sim {

class ByteSide {
 public:
  explicit ByteSide(RoundDecoder::Side side);

  // The first bytes of the dialling side.
  [[nodiscard]] static std::string begin();

  // The part of it that may be sent now: nothing before the other side's reply has arrived.
  [[nodiscard]] std::string encode(const RoundMessage& message);

  // Output enabled by feed: our preamble, or data that waited for theirs.
  [[nodiscard]] std::string take_reply();

  // Returns the messages that are complete now. False on a protocol error.
  [[nodiscard]] bool feed(std::string_view bytes,
                          std::vector<std::shared_ptr<const RoundMessage>>& out);

 private:
  RoundDecoder decoder_;
  std::string rest_;
  std::string waiting_;  // bytes to send: our preamble, or frames
  bool greeted_ = false;
};

}  // namespace muster::sim
