// SPDX-License-Identifier: Apache-2.0
// A started program that is timed: spawned by vfork (posix_spawn), waited for with a blocking wait
// (a polling one would be measured too). Called by the tool `time`. Resource type.
#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace muster::bench {

// Killed and waited for when it goes out of scope.
class Child {
 public:
  // argv: what PATH finds, or a path, and its arguments. `out` becomes its stdout; -1: /dev/null.
  [[nodiscard]] static Result<Child> start(std::vector<std::string> argv, int out);
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  // Blocks until it ends; what a shell would show in $?. A child that hangs so long (one peer does
  // so now and then) is killed with all its family: then 137.
  [[nodiscard]] int wait(int timeout_ms);

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
};

// Moves this process to one cpu; -1 leaves it where it is.
void pin_to(int cpu);

}  // namespace muster::bench
