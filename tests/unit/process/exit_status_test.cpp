// SPDX-License-Identifier: Apache-2.0
#include "process/values/exit_status.hpp"

#include "support/catch.hpp"

#include <csignal>

using namespace muster;

TEST_CASE("exit status: exit codes for the shell and as written by torchrun") {
  const auto code = ExitStatus::from_wait(CLD_EXITED, 7);
  CHECK(code.shell_code() == 7);
  CHECK(code.torchrun_code() == 7);
  CHECK_FALSE(code.success());
  const auto signal = ExitStatus::from_wait(CLD_KILLED, SIGTERM);
  CHECK(signal.shell_code() == 143);
  CHECK(signal.torchrun_code() == -15);
  CHECK(ExitStatus::from_wait(CLD_EXITED, 0).success());
}

TEST_CASE("exit status: describes how a process exited") {
  CHECK(ExitStatus::from_wait(CLD_EXITED, 7).describe() == "exited with code 7");
  CHECK(ExitStatus::from_wait(CLD_KILLED, SIGKILL).describe() == "killed by SIGKILL");
  CHECK(ExitStatus::from_wait(CLD_DUMPED, SIGSEGV).describe() ==
        "killed by SIGSEGV (segmentation fault, core dumped)");
  CHECK(ExitStatus::from_wait(CLD_KILLED, SIGFPE).describe() ==
        "killed by SIGFPE (floating point exception)");
  CHECK(ExitStatus::from_wait(CLD_KILLED, SIGXCPU).describe() ==
        "killed by SIGXCPU (CPU time limit exceeded)");
}

TEST_CASE("exit status: every signal has a name that parses to it") {
  for (int signo = 1; signo <= SIGRTMAX; ++signo) {
    const auto name = signal_name(signo);
    if (signo == 32 || signo == 33) {
      CHECK(name == "signal " + std::to_string(signo));  // reserved by the C library
    } else {
      CHECK(signal_number(name) == signo);
    }
  }
  CHECK(signal_name(SIGUSR1) == "SIGUSR1");
  CHECK(signal_name(SIGRTMIN + 2) == "SIGRTMIN+2");
  CHECK(signal_name(99) == "signal 99");
}

TEST_CASE("exit status: parses signal names in any spelling and rejects garbage") {
  CHECK(signal_number("TERM") == SIGTERM);
  CHECK(signal_number("sigterm") == SIGTERM);
  CHECK(signal_number("SIGRTMAX-1") == SIGRTMAX - 1);
  for (const auto* bad : {"", "SIG", "NOPE", "15", "RTMIN+99", "RTMIN-1", "RTMIN+", "SIGSIGTERM"}) {
    CHECK(signal_number(bad) == 0);
  }
}

TEST_CASE("exit status: a shell's code for a signal is not the process's own exit code") {
  for (const int own : {1, 128, 193, 255}) {
    CHECK(ExitStatus{false, own}.is_own_exit());
  }
  for (const int not_own : {0, 129, 137, 143, 192}) {
    CHECK_FALSE(ExitStatus{false, not_own}.is_own_exit());
  }
  CHECK_FALSE(ExitStatus{true, 9}.is_own_exit());
}
