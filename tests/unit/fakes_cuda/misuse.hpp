// SPDX-License-Identifier: Apache-2.0
// What the program muster-cuda-misuse can do: break a rule about modules and kernels, by name. Each
// in a process of its own, because a broken rule ends it. The end of a misuse that is not seen is
// exit code 0.
#pragma once

#include <map>
#include <string>

namespace muster::testing {

using Misuse = void (*)();
[[nodiscard]] const std::map<std::string, Misuse>& misuses();

}  // namespace muster::testing
