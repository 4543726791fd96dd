// SPDX-License-Identifier: Apache-2.0
// Any bytes, in any split, are decoded without a fault, and every split gives the same messages.
// What was decoded is encoded again and must come back as it was. The first byte of the input
// decides the split and the side.
#include "base/check.hpp"
#include "rendezvous/wire/round_decoder.hpp"
#include "rendezvous/wire/round_encoder.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {
namespace {

struct Decoded {
  std::string messages;  // encoded again
  std::string fault;
  bool operator==(const Decoded&) const = default;
};

Decoded decode(std::string_view bytes, std::size_t piece, RoundDecoder::Side side) {
  RoundDecoder decoder(side);
  decoder.allow_lists();
  Decoded out;
  std::string held;
  while (!bytes.empty()) {
    held.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      RoundMessage message;
      std::size_t consumed = 0;
      const auto status = decoder.next(held, message, consumed);
      MUSTER_CHECK(consumed <= held.size());
      held.erase(0, consumed);
      if (status == RoundDecoder::Status::broken || status == RoundDecoder::Status::foreign) {
        out.fault = decoder.fault();
        return out;
      }
      if (status == RoundDecoder::Status::need_more) {
        break;
      }
      if (status == RoundDecoder::Status::introduced) {
        continue;
      }
      MUSTER_CHECK(append_frame(out.messages, message).has_value());
    }
  }
  return out;
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  if (size == 0) {
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto side = data[0] < 128 ? RoundDecoder::Side::dialled : RoundDecoder::Side::accepted;
  const Decoded whole = decode(bytes, bytes.size() + 1, side);
  MUSTER_CHECK(whole == decode(bytes, 1UL + data[0] % 17, side));
  const std::string ours = round_reply(RoundReply::plain) + whole.messages;
  const Decoded again = decode(ours, ours.size() + 1, RoundDecoder::Side::dialled);
  MUSTER_CHECK(again.fault.empty() && again.messages == whole.messages);
  return 0;
}
