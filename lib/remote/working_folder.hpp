// SPDX-License-Identifier: Apache-2.0
// The working directory under the path that other hosts can use.
#pragma once

#include "base/environ.hpp"

#include <string>

namespace muster {

// $PWD if it is this directory, because other hosts may know only the path through symlinks and
// automounts. Otherwise the kernel's path, or "/" if there is none.
[[nodiscard]] std::string working_folder(const Environ& environ);

}  // namespace muster
