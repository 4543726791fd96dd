// SPDX-License-Identifier: Apache-2.0
// A program whose run time is measured. It is started with vfork (posix_spawn) and reaped with a
// blocking wait, because polling would distort the time. Called by the tool `time`. Resource type.
#pragma once

#include "base/error.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace muster::bench {

// The child is killed and reaped when this object goes out of scope.
class Child {
 public:
  // argv: a path or a name in PATH, and arguments. `out` becomes the child's stdout; -1 means
  // /dev/null.
  [[nodiscard]] static Result<Child> start(std::vector<std::string> argv, int out);
  Child(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  // Blocks until the child exits and returns the code that a shell shows in $?. After the timeout,
  // kills the child and its descendants and returns 137 (one of the other launchers hangs
  // occasionally).
  [[nodiscard]] int wait(int timeout_ms);

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
};

// Pins this process to one CPU. -1 does nothing.
void pin_to(int cpu);

}  // namespace muster::bench
