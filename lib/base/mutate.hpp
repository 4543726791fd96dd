// SPDX-License-Identifier: Apache-2.0
// MUSTER_MUTATE("quorum ignored"): breaks a rule on purpose, to show that the simulator's checkers
// detect it. Always false in release builds. Only the simulator compiles the cores with
// MUSTER_MUTATIONS; muster-sim --mutate selects one mutation. Used by cores.
#pragma once

#ifdef MUSTER_MUTATIONS

#include <string_view>

namespace muster {

// The rule that this process breaks, or empty.
inline std::string_view mutation;

}  // namespace muster

#define MUSTER_MUTATE(name) (!::muster::mutation.empty() && ::muster::mutation == (name))

#else

#define MUSTER_MUTATE(name) false

#endif
