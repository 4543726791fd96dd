// SPDX-License-Identifier: Apache-2.0
// Any output of a remote shell is noise, frames, or refused with a reason, and the result is the
// same for every split. A decoded payload can be encoded again.
#include "base/check.hpp"
#include "remote/frames.hpp"
#include "remote/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace muster;

struct Read {
  std::vector<Frame> frames;
  std::string refusal;
  bool operator==(const Read&) const = default;
};

Read read_in_pieces(std::string_view bytes, bool greeted, std::size_t piece) {
  FrameReader reader(greeted);
  Read out;
  while (!bytes.empty() && out.refusal.empty()) {
    reader.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    auto frame = reader.next();
    for (; frame && *frame; frame = reader.next()) {
      out.frames.push_back(std::move(**frame));
    }
    out.refusal = frame ? "" : frame.error().message;
    MUSTER_CHECK(frame || !out.refusal.empty());
  }
  return out;
}

template <class Decode>
void try_payload(const std::string& payload, Decode decode) {
  if (const auto message = decode(payload)) {
    const auto again = decode(encode(*message));
    MUSTER_CHECK(again && encode(*again) == encode(*message));
  }
}

void try_frame(const Frame& frame) {
  std::string bytes;
  append_frame(bytes, frame);
  const Read again = read_in_pieces(bytes, true, bytes.size());
  MUSTER_CHECK(again.refusal.empty() && again.frames == std::vector{frame});
  try_payload(frame.payload, decode_setup);
  try_payload(frame.payload, decode_hello);
  try_payload(frame.payload, decode_start);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool greeted : {true, false}) {
    const Read whole = read_in_pieces(bytes, greeted, std::max<std::size_t>(size, 1));
    MUSTER_CHECK(read_in_pieces(bytes, greeted, 1) == whole);
    MUSTER_CHECK(read_in_pieces(bytes, greeted, 7) == whole);
    std::ranges::for_each(whole.frames, try_frame);
  }
  return 0;
}
