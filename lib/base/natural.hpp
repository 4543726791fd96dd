// SPDX-License-Identifier: Apache-2.0
// Natural sort order of names: node7 before node66, ignoring case. It determines the order of
// ranks, so it must be the same on every node and does not depend on a locale. Pure.
#pragma once

#include <compare>
#include <string_view>

namespace muster {

// Runs of digits are compared as numbers of any length, everything else as lower-case letters. A
// digit sorts before a letter, and a prefix before the longer name. Names that are equal in this
// way ("n01", "N1") are then compared byte by byte. This is a total order, equal only for equal
// bytes.
[[nodiscard]] std::strong_ordering natural_order(std::string_view left, std::string_view right);

[[nodiscard]] bool natural_less(std::string_view left, std::string_view right);

}  // namespace muster
