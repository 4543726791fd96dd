// SPDX-License-Identifier: Apache-2.0
// ExitStatus: how a process exited. Pure value.
#pragma once

#include <string>

namespace muster {

struct ExitStatus {
  bool signaled = false;
  int value = 0;  // exit code or signal number
  bool core_dumped = false;

  // Converts waitid's code (CLD_EXITED, CLD_KILLED, CLD_DUMPED) and status.
  [[nodiscard]] static ExitStatus from_wait(int code, int status);

  [[nodiscard]] bool success() const { return !signaled && value == 0; }

  // True if the process exited on its own with a non-zero code. Shells exit with 128 + n to report
  // that signal n killed their child, so these codes count as signals.
  [[nodiscard]] bool is_own_exit() const;

  // The value that a shell would show in $?: the code, or 128 plus the signal number.
  [[nodiscard]] int shell_code() const { return signaled ? 128 + value : value; }

  // In torchrun's notation: the code, or the negative signal number.
  [[nodiscard]] int torchrun_code() const { return signaled ? -value : value; }

  // "exited with code 7", "killed by SIGSEGV (segmentation fault, core dumped)".
  [[nodiscard]] std::string describe() const;
  bool operator==(const ExitStatus&) const = default;
};

// "SIGTERM" for 15; "SIGRTMIN+2"; "signal 99" for a signal without a name.
[[nodiscard]] std::string signal_name(int signo);

// 15 for "SIGTERM", "TERM" or "sigterm"; 0 if there is no such signal.
[[nodiscard]] int signal_number(const std::string& name);

}  // namespace muster
