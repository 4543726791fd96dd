// SPDX-License-Identifier: Apache-2.0
// Describes events, effects and messages of nodes in one short line each, for traces and
// transcripts. Pure.
#pragma once

#include "rendezvous/round/node_events.hpp"

#include <string>

namespace muster::sim {

[[nodiscard]] std::string words_of(const RoundMessage& message);
[[nodiscard]] std::string words_of(const NodeEvent& event);
[[nodiscard]] std::string words_of(const NodeEffect& effect);
[[nodiscard]] std::string words_of(const RoundId& round);

// Heartbeats, which would flood the trace.
[[nodiscard]] bool is_tick(const NodeEvent& event);
[[nodiscard]] bool is_beat(const NodeEvent& event);
[[nodiscard]] bool is_beat(const NodeEffect& effect);

}  // namespace muster::sim
