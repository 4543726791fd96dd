// SPDX-License-Identifier: Apache-2.0
// RoundDecoder: decodes the bytes of one connection between nodes into messages (PROTOCOL.md,
// "Frames"). It is incremental: the messages do not depend on how the bytes are split. One small
// value per connection.
//
// The caller passes all bytes that are not decoded yet, and drops `consumed` bytes regardless of
// the status. The next step depends on the status:
// - message: use the message and call again.
// - introduced: read introduction() or reply() and call again, with decrypted bytes if both
//   sides agreed on TLS.
// - need_more: call again once more bytes have arrived.
// - foreign: answer with refuse_version(version()) and close the connection.
// - broken: close the connection with fault() as the reason.
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
  // Which side opened the connection. The first message on an accepted connection must be a Hello.
  enum class Side : std::uint8_t { dialled, accepted };
  enum class Status : std::uint8_t { message, introduced, need_more, foreign, broken };

  // `lists_body`: maximum body size of a message with member lists.
  explicit RoundDecoder(Side side, std::uint32_t lists_body = kMaxListsBody)
      : side_(side), lists_body_(lists_body) {}

  [[nodiscard]] Status next(std::string_view input, RoundMessage& message, std::size_t& consumed);

  // Initially all messages must be short. A peer that we dialled may send all kinds after its
  // Welcome. A peer that we accepted may send messages with text after our Welcome, and messages
  // with lists after our ShowRounds.
  void allow_texts() { allowed_ = std::max(allowed_, Allowed::texts); }

  void allow_lists() { allowed_ = Allowed::lists; }

  // True if the peer has shown that it uses this protocol.
  [[nodiscard]] bool greeted() const { return version_ != 0; }

  // What the peer sent before `introduced` was returned: introduction() if we accepted the
  // connection, reply() if we dialled it.
  [[nodiscard]] const Introduction& introduction() const { return introduction_; }

  [[nodiscard]] RoundReply reply() const { return reply_; }

  // The credential in a reply that contains one.
  [[nodiscard]] const std::string& credential() const { return credential_; }

  [[nodiscard]] std::uint16_t version() const { return version_; }

  // After `broken`: describes the error, with the message and the limit.
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
