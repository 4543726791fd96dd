// SPDX-License-Identifier: Apache-2.0
#include "remote/frames.hpp"

#include "base/bytes.hpp"
#include "base/check.hpp"

#include <limits>

namespace muster {
namespace {

constexpr std::size_t kHeaderBytes = 8;  // kind, 0, host, payload size

bool is_kind(std::uint8_t kind) {
  return kind >= static_cast<std::uint8_t>(RemoteFrameKind::setup) &&
         kind <= static_cast<std::uint8_t>(RemoteFrameKind::credit);
}

}  // namespace

void append_frame(std::string& out, const Frame& frame) {
  MUSTER_CHECK(frame.payload.size() <= kFrameBytesMax);
  append_int(out, static_cast<std::uint8_t>(frame.kind));
  append_int(out, std::uint8_t{0});
  append_int(out, frame.host);
  append_int(out, static_cast<std::uint32_t>(frame.payload.size()));
  out += frame.payload;
}

// Returns false if the greeting has not arrived yet.
Result<bool> FrameReader::find_greeting() {
  const auto at = bytes_.find(kGreeting);
  if (at != std::string::npos) {
    bytes_.erase(0, at + kGreeting.size());
    return true;
  }
  if (bytes_.size() > kNoiseBytesMax) {
    return failure(Errc::protocol, "the other end is not muster");
  }
  return false;
}

Result<std::optional<Frame>> FrameReader::next() {
  if (!greeted_) {
    const auto found = find_greeting();
    MUSTER_RETURN_IF_ERROR(found);
    greeted_ = *found;
  }
  if (!greeted_ || bytes_.size() < kHeaderBytes) {
    return std::nullopt;
  }
  const std::string_view view = bytes_;
  const auto kind = load_int<std::uint8_t>(view);
  const auto size = load_int<std::uint32_t>(view.substr(4));
  if (!is_kind(kind) || size > kFrameBytesMax) {
    return failure(Errc::protocol, "received an invalid frame");
  }
  if (view.size() < kHeaderBytes + size) {
    return std::nullopt;
  }
  Frame frame{static_cast<RemoteFrameKind>(kind),
              load_int<std::uint16_t>(view.substr(2)),
              std::string(view.substr(kHeaderBytes, size))};
  bytes_.erase(0, kHeaderBytes + size);
  return frame;
}

std::string pack(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) {
    MUSTER_CHECK(text.size() <= std::numeric_limits<std::uint32_t>::max());
    append_int(out, static_cast<std::uint32_t>(text.size()));
    out += text;
  }
  return out;
}

Result<std::vector<std::string>> unpack(std::string_view payload) {
  std::vector<std::string> texts;
  while (!payload.empty()) {
    const bool has_size = payload.size() >= sizeof(std::uint32_t);
    const std::size_t size = has_size ? load_int<std::uint32_t>(payload) : 0;
    if (!has_size || size > payload.size() - sizeof(std::uint32_t)) {
      return failure(Errc::protocol, "received a truncated list");
    }
    texts.emplace_back(payload.substr(sizeof(std::uint32_t), size));
    payload.remove_prefix(sizeof(std::uint32_t) + size);
  }
  return texts;
}

}  // namespace muster
