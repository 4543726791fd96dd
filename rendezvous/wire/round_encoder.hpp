// SPDX-License-Identifier: Apache-2.0
// Messages between nodes → bytes (PROTOCOL.md, "Frames"). Our decoder accepts all output: texts
// that are too long are truncated, numbers out of range are clamped. Pure.
#pragma once

#include "base/error.hpp"
#include "rendezvous/wire/round_limits.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace muster {

// The first bytes in both directions of a connection.
[[nodiscard]] std::string_view round_preamble();

// The preamble, followed by the plaintext exchange before any message: by the connecting side, the
// accepting side, and an accepting side that refuses.
[[nodiscard]] std::string round_introduction(const Introduction& introduction);
[[nodiscard]] std::string round_reply(RoundReply reply);
// The reply with a MUNGE credential, which is truncated at the maximum length of a text.
[[nodiscard]] std::string round_credential(const std::string& credential);
[[nodiscard]] std::string refuse_introduction(const Refuse& refuse);

// Appends one frame. Error: protocol, if a member list is too long; nothing is appended then.
[[nodiscard]] Result<void> append_frame(std::string& out, const RoundMessage& message);

// One frame for many connections.
using SharedFrame = std::shared_ptr<const std::string>;
[[nodiscard]] Result<SharedFrame> encode_shared(const RoundMessage& message);

// The reply to a preamble with another version: ours, and a Refuse that names both.
[[nodiscard]] std::string refuse_version(std::uint16_t theirs);

}  // namespace muster
