// SPDX-License-Identifier: Apache-2.0
// MeetingSettings: how long nodes wait for each other, from --rdzv-conf: torchrun's keys and our
// own (`lease`, `join_delay`, `risk_two_worlds`; the manual page says what each is). Part of
// LaunchConfig; value type.
#pragma once

#include "base/time.hpp"

#include <optional>

namespace muster {

struct MeetingSettings {
  Duration join_timeout =
      std::chrono::seconds(600);  // to form a round, from the start; static: 900
  Duration last_call_timeout = std::chrono::seconds(30);  // at MIN nodes: patience for more
  Duration close_timeout = std::chrono::seconds(30);  // for the others to see the end of the job
  Duration lease = std::chrono::seconds(9);           // a silent node counts as lost after this
  // Newcomers to a running job are gathered for this long before it regroups for them; none: they
  // wait until it regroups for another reason.
  std::optional<Duration> join_delay = Duration::zero();
  bool risk_two_worlds = false;  // a side without a majority goes on instead of waiting
  std::optional<bool> is_host;   // whether this node hosts the meeting; none: who can bind does
  bool operator==(const MeetingSettings&) const = default;
};

}  // namespace muster
