// SPDX-License-Identifier: Apache-2.0
// TurnFrames: encodes a message only once if it is sent to many nodes in one turn. Value-like.
#pragma once

#include "base/error.hpp"
#include "rendezvous/wire/round_encoder.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <map>
#include <memory>

namespace muster {

class TurnFrames {
 public:
  [[nodiscard]] Result<SharedFrame> of(const std::shared_ptr<const RoundMessage>& message) {
    if (message.use_count() == 1) {
      return encode_shared(*message);
    }
    if (const auto found = frames_.find(message); found != frames_.end()) {
      return found->second;
    }
    auto frame = encode_shared(*message);
    if (frame) {
      frames_.emplace(message, *frame);
    }
    return frame;
  }

  // Must be called at the end of each turn.
  void clear() { frames_.clear(); }

 private:
  std::map<std::shared_ptr<const RoundMessage>, SharedFrame> frames_;
};

}  // namespace muster
