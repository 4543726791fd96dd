// SPDX-License-Identifier: Apache-2.0
// open_streams: the streams of a process that LinuxRunner starts, on the loop's thread.
#pragma once

#include "base/error.hpp"
#include "process/output/output_pump.hpp"
#include "process/start/spawn.hpp"
#include "process/values/process_spec.hpp"

namespace muster {

// The pump owns the descriptors until its close_child_side(). Error: system.
[[nodiscard]] Result<ChildStreams> open_streams(OutputPump& pump, const ProcessSpec& spec);

}  // namespace muster
