// SPDX-License-Identifier: Apache-2.0
// RendezvousConfig: rendezvous parameters from --rdzv-conf. They are torchrun's keys and muster's
// own (`lease`, `join_delay`, `cool_down`, `allow_split_brain`, `any_program`). The manual page
// documents each key. Part of LaunchConfig; value type.
#pragma once

#include "base/time.hpp"

#include <optional>

namespace muster {

struct RendezvousConfig {
  Duration join_timeout =
      std::chrono::seconds(600);  // time limit for forming a round, from startup; static: 900
  // How long to wait for further nodes once MIN nodes have joined.
  Duration last_call_timeout = std::chrono::seconds(30);
  Duration lease = std::chrono::seconds(9);  // a node that is silent for this long is lost
  // How long a running job collects new nodes before it regroups to admit them. If unset, new nodes
  // wait until the job regroups for another reason.
  std::optional<Duration> join_delay = Duration::zero();
  // How long failures of a node count, and how long it is a last resort after a spare took its
  // place.
  Duration cool_down = std::chrono::minutes(30);
  bool allow_split_brain = false;  // a side without a majority continues instead of waiting
  bool any_program = false;        // nodes may run different programs
  // Whether this node hosts the rendezvous. If unset, the node that can bind the endpoint does.
  std::optional<bool> is_host;
  bool operator==(const RendezvousConfig&) const = default;
};

}  // namespace muster
