// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/control_message.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace muster::collective {
namespace {

constexpr std::size_t kMostText = 1024;
// The last value of Errc. Larger codes are invalid, except for kWelcome.
constexpr std::uint32_t kLastCode = 11;
constexpr std::uint32_t kWelcome = 0x100;

// The header of a message; the text follows.
struct Head {
  std::uint32_t code;
  std::int32_t rank;
  std::int32_t native;
  std::uint32_t text;
  std::uint64_t seq;
};

constexpr std::size_t kMost = sizeof(Head) + kMostText;

std::string bytes_of(const Head& head) {
  return {reinterpret_cast<const char*>(&head), sizeof(head)};
}

}  // namespace

std::string ControlMessages::encode(const Error& error) {
  const std::string text = error.text.substr(0, kMostText);
  const Head head{static_cast<std::uint32_t>(error.code),
                  error.rank,
                  error.native,
                  static_cast<std::uint32_t>(text.size()),
                  error.seq};
  return bytes_of(head) + text;
}

std::string ControlMessages::encode_welcome() {
  return bytes_of({.code = kWelcome, .rank = -1, .native = 0, .text = 0, .seq = 0});
}

void ControlMessages::take(std::span<const char> bytes) {
  while (!bytes.empty() && !is_done()) {
    // At most one message is buffered, no matter how much a peer sends.
    const auto part = bytes.first(std::min(bytes.size(), kMost - bytes_.size()));
    bytes_.append(part.data(), part.size());
    bytes = bytes.subspan(part.size());
    while (take_one()) {
    }
  }
}

// A rank that fails while it is still accepting connections sends its reason before the welcome.
bool ControlMessages::take_one() {
  Head head{};
  if (bytes_.size() < sizeof(head)) {
    return false;
  }
  std::memcpy(&head, bytes_.data(), sizeof(head));
  if (head.code == kWelcome) {
    is_welcomed_ = true;
    bytes_.erase(0, sizeof(head));
    return true;
  }
  const std::size_t length = std::min<std::size_t>(head.text, kMostText);
  is_strange_ = head.code > kLastCode;
  if (is_strange_ || bytes_.size() < sizeof(head) + length) {
    return false;
  }
  // Only the first reason counts. Later reasons are still parsed, because a welcome may follow.
  if (!first_) {
    first_ = Error{.code = static_cast<Errc>(head.code),
                   .rank = head.rank,
                   .seq = head.seq,
                   .native = head.native,
                   .text = bytes_.substr(sizeof(head), length)};
  }
  bytes_.erase(0, sizeof(head) + length);
  return true;
}

}  // namespace muster::collective
