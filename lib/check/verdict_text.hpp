// SPDX-License-Identifier: Apache-2.0
// The verdict as text for people, as musterctl check prints it. Pure; thread-safe.
#pragma once

#include "check/judge.hpp"

#include <string>

namespace muster::check {

// All defects, what was not measured, and the figures. The texts of the verdict must be printable.
[[nodiscard]] std::string verdict_text(const Verdict& verdict);

}  // namespace muster::check
