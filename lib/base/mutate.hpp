// SPDX-License-Identifier: Apache-2.0
// MUSTER_MUTATE("quorum ignored"): breaks a rule on purpose, to show that the simulator's checkers
// see it. Always false in what users run; only the simulator compiles the cores with
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
