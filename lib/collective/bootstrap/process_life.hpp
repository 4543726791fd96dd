// SPDX-License-Identifier: Apache-2.0
// What happens to the whole process and a communicator must know of: it was forked, or it ends by
// exit() with communicators open. Any thread.
#pragma once

#include <cstdint>

namespace muster::collective {

// Another number in a child after fork(): what it inherited belongs to its parent.
[[nodiscard]] std::uint32_t fork_generation();

// Leaves when the process ends by exit(), while it is registered.
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
