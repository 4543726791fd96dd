// SPDX-License-Identifier: Apache-2.0
// The capture mode of each thread: if a thread in global mode queries an event, it invalidates a
// graph that another thread is capturing.
#pragma once

#include <cuda.h>

namespace muster::fake {

[[nodiscard]] inline CUstreamCaptureMode& capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

}  // namespace muster::fake
