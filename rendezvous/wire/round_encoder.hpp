// SPDX-License-Identifier: Apache-2.0
// Messages between nodes → bytes (PROTOCOL.md, "Frames"). What we send always passes our own
// decoder: texts that are too long are cut, numbers out of range are moved to its end. Pure.
#pragma once

#include "base/error.hpp"
#include "rendezvous/wire/round_limits.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace muster {

// With which both directions of a connection begin.
[[nodiscard]] std::string_view round_preamble();

// The same with what is said before any message: of who connected, of who accepted, and of who
// accepted and refuses.
[[nodiscard]] std::string round_introduction(const Introduction& introduction);
[[nodiscard]] std::string round_reply(RoundReply reply);
// The reply that hands a credential of MUNGE over; longer ones than a text may be are cut.
[[nodiscard]] std::string round_credential(const std::string& credential);
[[nodiscard]] std::string refuse_introduction(const Refuse& refuse);

// Appends one frame. Error: protocol, if a list of members is too long; nothing is appended then.
[[nodiscard]] Result<void> append_frame(std::string& out, const RoundMessage& message);

// One frame for many connections.
using SharedFrame = std::shared_ptr<const std::string>;
[[nodiscard]] Result<SharedFrame> encode_shared(const RoundMessage& message);

// The answer to a preamble with another version: ours, and a Refuse that names both.
[[nodiscard]] std::string refuse_version(std::uint16_t theirs);

}  // namespace muster
