// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/wire_level.hpp"

#include "rendezvous/wire/round_encoder.hpp"

#include <utility>
#include <variant>

namespace muster::sim {

ByteSide::ByteSide(RoundDecoder::Side side) : decoder_(side) {
  if (side == RoundDecoder::Side::dialled) {
    decoder_.trust();
  }
}

std::string ByteSide::encode(const RoundMessage& message) {
  std::string bytes;
  if (!greeted_) {
    greeted_ = true;
    bytes = round_preamble();
  }
  if (std::holds_alternative<Welcome>(message)) {
    decoder_.trust();
  }
  return append_frame(bytes, message) ? bytes : std::string();
}

bool ByteSide::feed(std::string_view bytes, std::vector<std::shared_ptr<const RoundMessage>>& out) {
  rest_ += bytes;
  std::string_view input = rest_;
  while (true) {
    RoundMessage message;
    std::size_t consumed = 0;
    const RoundDecoder::Status status = decoder_.next(input, message, consumed);
    input.remove_prefix(consumed);
    if (status == RoundDecoder::Status::message) {
      out.push_back(std::make_shared<const RoundMessage>(std::move(message)));
      continue;
    }
    rest_.erase(0, rest_.size() - input.size());
    return status == RoundDecoder::Status::need_more;
  }
}

}  // namespace muster::sim
