// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/wire_level.hpp"

#include "rendezvous/wire/round_encoder.hpp"

#include <utility>
#include <variant>

namespace muster::sim {

ByteSide::ByteSide(RoundDecoder::Side side)
    : decoder_(side),
      waiting_(side == RoundDecoder::Side::accepted ? round_reply(RoundReply::plain)
                                                    : std::string()) {}

std::string ByteSide::begin() {
  return round_introduction({});
}

std::string ByteSide::take_reply() {
  return greeted_ ? std::exchange(waiting_, {}) : std::string();
}

std::string ByteSide::encode(const RoundMessage& message) {
  if (std::holds_alternative<Welcome>(message)) {
    decoder_.allow_texts();
  } else if (std::holds_alternative<ShowRounds>(message)) {
    decoder_.allow_lists();
  }
  static_cast<void>(append_frame(waiting_, message));  // messages that cannot be encoded are not
                                                       // sent
  return take_reply();
}

bool ByteSide::feed(std::string_view bytes, std::vector<std::shared_ptr<const RoundMessage>>& out) {
  rest_ += bytes;
  std::string_view input = rest_;
  while (true) {
    RoundMessage message;
    std::size_t consumed = 0;
    const RoundDecoder::Status status = decoder_.next(input, message, consumed);
    input.remove_prefix(consumed);
    if (status == RoundDecoder::Status::introduced) {
      greeted_ = true;
      continue;
    }
    if (status == RoundDecoder::Status::message) {
      out.push_back(std::make_shared<const RoundMessage>(std::move(message)));
      continue;
    }
    rest_.erase(0, rest_.size() - input.size());
    return status == RoundDecoder::Status::need_more;
  }
}

}  // namespace muster::sim
