// SPDX-License-Identifier: Apache-2.0
// Helpers for the bytes of the protocol between nodes: decode them in pieces, and build frames.
#pragma once

#include "base/bytes.hpp"
#include "rendezvous/wire/round_decoder.hpp"
#include "rendezvous/wire/round_encoder.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::testing {

using Side = RoundDecoder::Side;
using Status = RoundDecoder::Status;

struct Decoded {
  std::vector<RoundMessage> messages;
  std::string fault;
  std::size_t left = 0;
};

inline Decoded decode(RoundDecoder decoder, std::string_view bytes, std::size_t piece) {
  Decoded out;
  std::string held;
  while (!bytes.empty()) {
    held.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      RoundMessage message;
      std::size_t consumed = 0;
      const Status status = decoder.next(held, message, consumed);
      held.erase(0, consumed);
      if (status == Status::broken) {
        out.fault = decoder.fault();
        return out;
      }
      if (status == Status::introduced) {
        continue;
      }
      if (status != Status::message) {
        break;
      }
      out.messages.push_back(std::move(message));
    }
  }
  out.left = held.size();
  return out;
}

inline Decoded decode(Side side, std::string_view bytes) {
  return decode(RoundDecoder(side), bytes, bytes.size());
}

inline std::string frame_of(const RoundMessage& message) {
  std::string out;
  REQUIRE(append_frame(out, message));
  return out;
}

inline std::string raw_frame(std::uint8_t kind, std::string_view body) {
  std::string out;
  append_int(out, static_cast<std::uint32_t>(body.size()));
  append_int(out, kind);
  return out.append(body);
}

// Follows the introductions of both sides.
inline std::string after_introduction(std::string_view bytes) {
  return round_introduction({.proofs = Proofs::none, .job = "job"}).append(bytes);
}

inline std::string after_reply(std::string_view bytes) {
  return round_reply(RoundReply::plain).append(bytes);
}

}  // namespace muster::testing
