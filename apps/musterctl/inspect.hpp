// SPDX-License-Identifier: Apache-2.0
// Looks at the workers of a running job as --hang-timeout does when they hang (lib/hang), once and
// on demand. Nothing is stopped for longer than some milliseconds. Blocks; stateless.
#pragma once

#include "hang/evidence.hpp"
#include "local_job.hpp"

#include <cstdint>

namespace muster {

enum class Look : std::uint8_t { torch_operations, all };

[[nodiscard]] hang::Evidence inspect(const LocalJob& job, Look what);

}  // namespace muster
