// SPDX-License-Identifier: Apache-2.0
// The folder that we run in, as other machines are to be told of it.
#pragma once

#include "base/environ.hpp"

#include <string>

namespace muster {

// $PWD where it is this folder, since a path through links and automounts may be the only one that
// other machines have; else the kernel's path; "/" where it has none.
[[nodiscard]] std::string working_folder(const Environ& environ);

}  // namespace muster
