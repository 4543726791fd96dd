// SPDX-License-Identifier: Apache-2.0
// Process events that affect communicators: a fork, or exit() with open communicators. Any thread.
#pragma once

#include <cstdint>

namespace muster::collective {

// Has a different value in a child after fork(), where all inherited state belongs to the parent.
[[nodiscard]] std::uint32_t fork_generation();

// Called when the process exits through exit() while the listener is registered.
class ExitListener {
 public:
  ExitListener() = default;
  ExitListener(const ExitListener&) = delete;
  ExitListener& operator=(const ExitListener&) = delete;
  virtual ~ExitListener() = default;

  virtual void process_exits() = 0;
};

void add_exit_listener(ExitListener& listener);
void remove_exit_listener(ExitListener& listener);

}  // namespace muster::collective
