// SPDX-License-Identifier: Apache-2.0
// ExitStatus: how a process ended, as a value. Pure.
#pragma once

#include <string>

namespace muster {

struct ExitStatus {
  bool signaled = false;
  int value = 0;  // exit code, or the signal's number
  bool core_dumped = false;

  // From waitid's code (CLD_EXITED, CLD_KILLED, CLD_DUMPED) and status.
  [[nodiscard]] static ExitStatus from_wait(int code, int status);

  [[nodiscard]] bool success() const { return !signaled && value == 0; }

  // What a shell would show in $?: the code, or 128 + signal.
  [[nodiscard]] int shell_code() const { return signaled ? 128 + value : value; }

  // As torchrun writes it: the code, or minus the signal.
  [[nodiscard]] int torchrun_code() const { return signaled ? -value : value; }

  // "exited with code 7", "killed by SIGSEGV (segmentation fault, core dumped)".
  [[nodiscard]] std::string describe() const;
  bool operator==(const ExitStatus&) const = default;
};

// "SIGTERM" for 15; "SIGRTMIN+2"; "signal 99" for what has no name.
[[nodiscard]] std::string signal_name(int signo);

// 15 for "SIGTERM", "TERM" or "sigterm"; 0 where there is no such signal.
[[nodiscard]] int signal_number(const std::string& name);

}  // namespace muster
