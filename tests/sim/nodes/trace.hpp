// SPDX-License-Identifier: Apache-2.0
// Trace of one simulated run: its hash always, its text where somebody reads it. Fixed columns:
// virtual time, node, what (a letter), text. Resource of one run.
#pragma once

#include "sim/nodes/event_queue.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::sim {

struct Trace {
  bool on = false;
  bool beats = false;           // signs of life too
  bool states = true;           // of the core after each event
  std::string* text = nullptr;  // instead of stdout
  std::uint64_t hash = 0xcbf29ce484222325;

  void mix(std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3 ^ (hash >> 29); }

  // Letters: ! what befalls a node, < what its core is told, > what it wants, = its state after.
  void line(VirtualTime now, std::string_view node, char letter, std::string_view what) const;
};

}  // namespace muster::sim
