// SPDX-License-Identifier: Apache-2.0
// Programs that the bench starts: found on PATH, spawned by vfork (posix_spawn), waited for with a
// plain blocking wait (a polling one would be measured too). Called by all blocks. Resource type.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster::bench {

struct Command {
  std::vector<std::string> words;  // the first one is a path
  Environ environ;
  int out = -1;  // descriptor for its stdout, or -1 for /dev/null
  int err = -1;
  int cpu = -1;  // pinned to this cpu, or -1
};

inline constexpr int kHungMs = 10'000;

// A started program; killed and waited for when it goes out of scope.
class Child {
 public:
  [[nodiscard]] static Result<Child> start(const Command& command);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  ~Child() { kill_now(); }

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Blocks until it ends; what a shell would show in $?. A child that hangs so long (one peer does
  // so now and then) is killed with all its family: then 137.
  [[nodiscard]] int wait(int patience_ms = kHungMs);
  // SIGKILL to it and to all processes below it.
  void kill_now();

  // SIGTERM, so that it can stop its own children; then a blocking wait.
  void stop();

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
};

// The path of an executable file of that name: as it is with a slash, else on PATH.
[[nodiscard]] std::optional<std::string> find_program(const std::string& name,
                                                      const Environ& environ);

// Moves this process to one cpu; -1 gives it all cpus back.
void pin_to(int cpu);

// All processes below `pid`, itself first.
[[nodiscard]] std::vector<pid_t> family_of(pid_t pid);

// A number of kilobytes from /proc/PID/status ("VmRSS", "VmHWM"); 0 when the process is gone.
[[nodiscard]] std::size_t memory_kib(pid_t pid, const std::string& field);

}  // namespace muster::bench
