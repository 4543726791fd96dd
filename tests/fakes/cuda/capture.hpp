// SPDX-License-Identifier: Apache-2.0
// The capture mode of each thread: a query of an event by a thread in global mode spoils a graph
// that another thread captures.
#pragma once

#include <cuda.h>

namespace muster::fake {

[[nodiscard]] inline CUstreamCaptureMode& capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

}  // namespace muster::fake
