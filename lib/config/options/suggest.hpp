// SPDX-License-Identifier: Apache-2.0
// What a user who mistyped a name probably meant: options, keys of --rdzv-conf, variables. Used
// inside this room only. Pure.
#pragma once

#include "base/environ.hpp"
#include "config/options/settings.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The candidate that is nearest to `name`, or the only one that continues it behind a separator
// ("nproc": "nproc-per-node"). Empty: none is near.
[[nodiscard]] std::string_view nearest_name(std::string_view name,
                                            const std::vector<std::string_view>& candidates);

// The option that was probably meant, also by the names that other launchers have for it. Null:
// none is near. `name` is spelled with dashes.
[[nodiscard]] const Option* nearest_option(std::string_view name, Personality personality);

// The same among the options that have a value: those of the config file and of variables.
[[nodiscard]] const Option* nearest_setting(std::string_view name, Personality personality);

// One warning for each MUSTER_ or PET_ variable that is nearly one that we read.
[[nodiscard]] std::vector<std::string> mistyped_variables(const Environ& environ,
                                                          Personality personality);

// What serves here in place of an option of accelerate launch or mpirun; empty: it is none of
// theirs. `name` is without dashes before it, and with dashes inside.
[[nodiscard]] std::string_view instead_of_foreign(std::string_view name);

}  // namespace muster
