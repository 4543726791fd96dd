// SPDX-License-Identifier: Apache-2.0
// Determines whether a signal that the launcher received has also reached the workers. If so,
// forwarding it would deliver it twice. Pure, except for reading the sender's name. Called by the
// agent.
#pragma once

#include "config/launch_config.hpp"
#include "process/guard/guard.hpp"

#include <string>
#include <string_view>

namespace muster {

// `sender` is the name of the sending process; empty if unknown.
[[nodiscard]] bool reached_workers(SignalDelivery delivery,
                                   const SignalNotice& notice,
                                   std::string_view sender);

// The name of a live process, as in /proc/PID/comm; empty if there is no such process.
[[nodiscard]] std::string process_name(pid_t pid);

}  // namespace muster
