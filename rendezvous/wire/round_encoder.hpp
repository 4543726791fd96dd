// SPDX-License-Identifier: Apache-2.0
// Encodes messages between nodes (PROTOCOL.md, "Frames"). Our decoder accepts all of its output:
// texts that are too long are truncated, and numbers out of range are clamped. Pure.
#pragma once

#include "base/error.hpp"
#include "rendezvous/wire/round_limits.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace muster {

// The first bytes that each side sends on a connection.
[[nodiscard]] std::string_view round_preamble();

// The preamble, followed by the plaintext exchange that precedes all messages. There is a function
// for the connecting side, for the accepting side, and for an accepting side that refuses.
[[nodiscard]] std::string round_introduction(const Introduction& introduction);
[[nodiscard]] std::string round_reply(RoundReply reply);
// The reply with a MUNGE credential. The credential is truncated at the maximum length of a text.
[[nodiscard]] std::string round_credential(const std::string& credential);
[[nodiscard]] std::string refuse_introduction(const Refuse& refuse);

// Appends one frame. Error: protocol, if a member list is too long; then nothing is appended.
[[nodiscard]] Result<void> append_frame(std::string& out, const RoundMessage& message);

// A frame that is shared by many connections.
using SharedFrame = std::shared_ptr<const std::string>;
[[nodiscard]] Result<SharedFrame> encode_shared(const RoundMessage& message);

// The reply to a preamble with a different version: our preamble, and a Refuse that mentions both
// versions.
[[nodiscard]] std::string refuse_version(std::uint16_t theirs);

}  // namespace muster
