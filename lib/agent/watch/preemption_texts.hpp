// SPDX-License-Identifier: Apache-2.0
// PreemptionTexts: what nodes tell each other about a preemption. The texts travel in an inquiry
// (rendezvous/round/questions/inquiry.hpp). They come from other nodes, so decoding checks them.
// Values; pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The scheduler will stop the job.
struct PreemptionNotice {
  std::string why;
  Duration left{};  // until the deadline
  bool operator==(const PreemptionNotice&) const = default;
};

// All ranks save at this step; at their next poll if no rank reports steps.
struct PreemptionDecision {
  PreemptionNotice notice;
  std::optional<std::uint64_t> step;
  bool operator==(const PreemptionDecision&) const = default;
};

using ReportedStep = std::optional<std::uint64_t>;

[[nodiscard]] std::string encode(const PreemptionNotice& notice);
[[nodiscard]] std::string encode(const PreemptionDecision& decision);
[[nodiscard]] std::string encode(const ReportedStep& step);
[[nodiscard]] std::optional<PreemptionNotice> decode_notice(std::string_view text);
[[nodiscard]] std::optional<PreemptionDecision> decode_decision(std::string_view text);
[[nodiscard]] ReportedStep decode_step(std::string_view text);

// The first step that no rank has passed. `steps` contains the last step of each rank or node.
[[nodiscard]] ReportedStep save_step(const std::vector<ReportedStep>& steps);

}  // namespace muster
