// SPDX-License-Identifier: Apache-2.0
// Level B of the simulation: what one end of a connection does to bytes. The real encoder on the
// way out, the real decoder on the way in, as server/node uses them. One for each end.
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

  // How the side begins that has dialled.
  [[nodiscard]] static std::string begin();

  // What may be sent now of that: nothing before the reply of the other side is here.
  [[nodiscard]] std::string encode(const RoundMessage& message);

  // What feed has made possible: our greeting, or what waited for theirs.
  [[nodiscard]] std::string take_reply();

  // Messages that are whole now. False: the bytes break the format.
  [[nodiscard]] bool feed(std::string_view bytes,
                          std::vector<std::shared_ptr<const RoundMessage>>& out);

 private:
  RoundDecoder decoder_;
  std::string rest_;
  std::string waiting_;  // our greeting, or frames
  bool greeted_ = false;
};

}  // namespace muster::sim
