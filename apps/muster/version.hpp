// SPDX-License-Identifier: Apache-2.0
// What --version prints. Called by main; pure.
#pragma once

#include <string>

namespace muster {

[[nodiscard]] std::string version_text();

// "0.1.0": nodes of one job have the same.
[[nodiscard]] std::string version_number();

}  // namespace muster
