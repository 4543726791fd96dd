// SPDX-License-Identifier: Apache-2.0
// RoundDecoder: bytes of one connection between nodes → messages (PROTOCOL.md, "Frames").
// Incremental: however the bytes are split, the same messages come out. One small value for each
// connection.
//
// The caller 1. hands over all bytes that it has, beginning with the first undecoded one; 2. drops
// `consumed` bytes, whatever the status; 3. on message uses it and calls again; 4. on need_more
// calls again once it has more; 5. on foreign answers with refuse_version(version()) and closes; 6.
// on broken closes with fault() as the reason.
#pragma once

#include "rendezvous/wire/round_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

class RoundDecoder {
 public:
  // Who made the connection. On an accepted one the first message has to be a Hello.
  enum class Side : std::uint8_t { dialled, accepted };
  enum class Status : std::uint8_t { message, need_more, foreign, broken };

  explicit RoundDecoder(Side side) : side_(side) {}

  [[nodiscard]] Status next(std::string_view input, RoundMessage& message, std::size_t& consumed);

  // The other side may send long lists from now on: one that was welcomed, or that we follow.
  void trust() { trusted_ = true; }

  // Whether the other side has shown that it speaks this protocol.
  [[nodiscard]] bool greeted() const { return version_ != 0; }

  [[nodiscard]] std::uint16_t version() const { return version_; }

  // After broken: what was wrong, on what, and the limit.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  [[nodiscard]] Status take_preamble(std::string_view input, std::size_t& consumed);
  [[nodiscard]] Status take_frame(std::string_view input,
                                  RoundMessage& message,
                                  std::size_t& consumed);
  [[nodiscard]] Status check_head(std::uint8_t kind, std::uint32_t length);
  [[nodiscard]] Status break_with(std::string fault);

  std::string fault_;
  std::uint16_t version_ = 0;
  Side side_;
  bool trusted_ = false;
  bool said_hello_ = false;
};

}  // namespace muster
