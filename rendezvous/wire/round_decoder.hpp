// SPDX-License-Identifier: Apache-2.0
// RoundDecoder: bytes of one connection between nodes → messages (PROTOCOL.md, "Frames").
// Incremental: however the bytes are split, the same messages come out. One small value for each
// connection.
//
// The caller 1. hands over all bytes that it has, beginning with the first undecoded one; 2. drops
// `consumed` bytes, whatever the status; 3. on message uses it and calls again; 4. on introduced
// looks at introduction() or reply() and calls again: with what TLS carries, if both sides have
// said so; 5. on need_more calls again once it has more; 6. on foreign answers with
// refuse_version(version()) and closes; 7. on broken closes with fault() as the reason.
#pragma once

#include "rendezvous/wire/round_limits.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

struct FrameKind;

class RoundDecoder {
 public:
  // Who made the connection. On an accepted one the first message has to be a Hello.
  enum class Side : std::uint8_t { dialled, accepted };
  enum class Status : std::uint8_t { message, introduced, need_more, foreign, broken };

  // `lists_body`: the longest body of a message with lists of members.
  explicit RoundDecoder(Side side, std::uint32_t lists_body = kMaxListsBody)
      : side_(side), lists_body_(lists_body) {}

  [[nodiscard]] Status next(std::string_view input, RoundMessage& message, std::size_t& consumed);

  // At first every message has to be short. Whom we dialled may send all kinds after its Welcome.
  // Of one that we accepted: we have welcomed it, and it may send texts; we have asked it for
  // rounds, and it may send lists.
  void allow_texts() { allowed_ = std::max(allowed_, Allowed::texts); }

  void allow_lists() { allowed_ = Allowed::lists; }

  // Whether the other side has shown that it speaks this protocol.
  [[nodiscard]] bool greeted() const { return version_ != 0; }

  // Of the other side, after introduced: where we accepted, and where we dialled.
  [[nodiscard]] const Introduction& introduction() const { return introduction_; }

  [[nodiscard]] RoundReply reply() const { return reply_; }

  // Of a reply that hands one over.
  [[nodiscard]] const std::string& credential() const { return credential_; }

  [[nodiscard]] std::uint16_t version() const { return version_; }

  // After broken: what was wrong, on what, and the limit.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  enum class Allowed : std::uint8_t { short_ones, texts, lists };

  [[nodiscard]] std::uint32_t limit_of(const FrameKind& kind) const;
  [[nodiscard]] Status take_preamble(std::string_view input, std::size_t& consumed);
  [[nodiscard]] Status take_introduction(std::string_view input, std::size_t& consumed);
  [[nodiscard]] Status take_reply(std::string_view input, std::size_t& consumed);
  [[nodiscard]] bool hears_only_refuse() const;
  [[nodiscard]] Status take_frame(std::string_view input,
                                  RoundMessage& message,
                                  std::size_t& consumed);
  [[nodiscard]] Status check_head(std::uint8_t number, std::uint32_t length);
  [[nodiscard]] Status break_with(std::string fault);

  std::string fault_;
  std::uint16_t version_ = 0;
  Introduction introduction_;
  RoundReply reply_ = RoundReply::refused;
  std::string credential_;
  Side side_;
  std::uint32_t lists_body_;
  Allowed allowed_ = Allowed::short_ones;
  bool introduced_ = false;
  bool said_hello_ = false;
};

}  // namespace muster
