// SPDX-License-Identifier: Apache-2.0
// Returns a path to the working directory that is also valid on other hosts.
#pragma once

#include "base/environ.hpp"

#include <string>

namespace muster {

// Returns $PWD if it is the current directory, because on other hosts the directory may be
// reachable only by that path (symlinks, automounts). Otherwise returns the kernel's path, or "/"
// if there is none.
[[nodiscard]] std::string working_folder(const Environ& environ);

}  // namespace muster
