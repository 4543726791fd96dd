// SPDX-License-Identifier: Apache-2.0
// MUSTER_MUTATE("quorum ignored"): deliberately breaks a rule, to show that the simulator's
// checkers detect it. Always false in releases; only the simulator compiles the cores with
// MUSTER_MUTATIONS and names one of them (muster-sim --mutate). Used by cores.
#pragma once

#ifdef MUSTER_MUTATIONS

#include <string_view>

namespace muster {

// The rule that is broken in this process; empty: none.
inline std::string_view mutation;

}  // namespace muster

#define MUSTER_MUTATE(name) (!::muster::mutation.empty() && ::muster::mutation == (name))

#else

#define MUSTER_MUTATE(name) false

#endif
