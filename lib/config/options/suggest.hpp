// SPDX-License-Identifier: Apache-2.0
// Suggestions for mistyped names of options, --rdzv-conf keys and variables. Internal to this
// module. Pure.
#pragma once

#include "base/environ.hpp"
#include "config/options/settings.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The candidate most similar to `name`, or the only candidate that starts with `name` and a
// separator ("nproc": "nproc-per-node"). Empty if no candidate is similar.
[[nodiscard]] std::string_view nearest_name(std::string_view name,
                                            const std::vector<std::string_view>& candidates);

// The option that the user probably meant. Also recognises names from other launchers. Null if no
// option is similar. `name` is spelled with dashes.
[[nodiscard]] const Option* nearest_option(std::string_view name, Personality personality);

// Like nearest_option, but only for options that the config file and variables can set.
[[nodiscard]] const Option* nearest_setting(std::string_view name, Personality personality);

// One warning for each unknown MUSTER_ or PET_ variable that resembles a known one.
[[nodiscard]] std::vector<std::string> mistyped_variables(const Environ& environ,
                                                          Personality personality);

// Advice for an option of accelerate launch or mpirun. Empty if `name` is not one of their options.
// `name` has no leading dashes and is spelled with dashes.
[[nodiscard]] std::string_view instead_of_foreign(std::string_view name);

}  // namespace muster
