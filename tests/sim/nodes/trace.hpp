// SPDX-License-Identifier: Apache-2.0
// Trace of one simulated run: always its hash, and its text if wanted. Fixed columns: virtual time,
// node, kind (a letter), text. Resource of one run.
#pragma once

#include "sim/nodes/event_queue.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::sim {

struct Trace {
  bool on = false;
  bool beats = false;           // includes heartbeats
  bool states = true;           // includes the core's state after each event
  std::string* text = nullptr;  // instead of stdout
  std::uint64_t hash = 0xcbf29ce484222325;

  void mix(std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3 ^ (hash >> 29); }

  // Letters: ! external event, < input of its core, > output of its core, = its state afterwards.
  void line(VirtualTime now, std::string_view node, char letter, std::string_view what) const;
};

}  // namespace muster::sim
