// SPDX-License-Identifier: Apache-2.0
// Whether a signal that has come to the launcher has reached the workers as well, so that passing
// it on would give it to them twice. Pure, but for the name of the sender. Called by the agent.
#pragma once

#include "config/launch_config.hpp"
#include "process/guard/guard.hpp"

#include <string>
#include <string_view>

namespace muster {

// `sender`: the name of the process that sent it; empty where nothing is known of it.
[[nodiscard]] bool reached_workers(SignalDelivery delivery,
                                   const SignalNotice& notice,
                                   std::string_view sender);

// The name of a live process, as in /proc/PID/comm; else empty.
[[nodiscard]] std::string process_name(pid_t pid);

}  // namespace muster
