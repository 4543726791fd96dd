// SPDX-License-Identifier: Apache-2.0
#include "agent/signal_reach.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <array>
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::string_view kStepDaemon = "slurmstepd";

// Terminal keys send signals only to the foreground process group. Workers have their own sessions,
// so these signals do not reach them.
bool is_of_terminal(const SignalNotice& notice) {
  return notice.code == SI_KERNEL;
}

// In a container, the pid of the step's daemon is not visible to us. Other processes in the step
// (timeout, a shell) may also signal us, but do not signal the workers.
bool is_of_step(const SignalNotice& notice, std::string_view sender) {
  return notice.sender_pid == 0 || sender == kStepDaemon;
}

}  // namespace

bool reached_workers(SignalDelivery delivery, const SignalNotice& notice, std::string_view sender) {
  if (is_of_terminal(notice)) {
    return false;
  }
  switch (delivery) {
    case SignalDelivery::leader:
      return false;
    case SignalDelivery::slurm_step:
      return is_of_step(notice, sender);
    case SignalDelivery::group:
      break;
  }
  return true;
}

std::string process_name(pid_t pid) {
  const UniqueFd file(::open(fmt::format("/proc/{}/comm", pid).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const auto count = file ? ::read(file.get(), text.data(), text.size()) : 0;
  return std::string(
      trim(std::string_view(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0)));
}

}  // namespace muster
