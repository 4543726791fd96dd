// SPDX-License-Identifier: Apache-2.0
// The output of --version. Called by main; pure.
#pragma once

#include <string>

namespace muster {

[[nodiscard]] std::string version_text();

// Example: "0.1.0". All nodes in a job must have the same version.
[[nodiscard]] std::string version_number();

}  // namespace muster
