// SPDX-License-Identifier: Apache-2.0
// RendezvousConfig: how long nodes wait for each other, from --rdzv-conf: torchrun's keys and our
// own (`lease`, `join_delay`, `allow_split_brain`, `any_program`; the manual page says what each
// is). Part of LaunchConfig; value type.
#pragma once

#include "base/time.hpp"

#include <optional>

namespace muster {

struct RendezvousConfig {
  Duration join_timeout =
      std::chrono::seconds(600);  // to form a round, from the start; static: 900
  Duration last_call_timeout = std::chrono::seconds(30);  // at MIN nodes: how long to wait for more
  Duration lease = std::chrono::seconds(9);               // a silent node counts as lost after this
  // Newcomers to a running job are gathered for this long before it regroups for them; none: they
  // wait until it regroups for another reason.
  std::optional<Duration> join_delay = Duration::zero();
  bool allow_split_brain = false;  // a side without a majority goes on instead of waiting
  bool any_program = false;        // nodes may run different programs
  std::optional<bool> is_host;  // whether this node hosts the rendezvous; none: who can bind does
  bool operator==(const RendezvousConfig&) const = default;
};

}  // namespace muster
