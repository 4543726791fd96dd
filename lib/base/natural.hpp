// SPDX-License-Identifier: Apache-2.0
// Natural sort order for names: node7 before node66, ignoring case. It determines the order of
// ranks, so it must be the same on every node and must not depend on a locale. Pure.
#pragma once

#include <compare>
#include <string_view>

namespace muster {

// Digit sequences are compared as numbers of any length. Letters are compared in lower case. A
// digit sorts before a letter, and a prefix before a longer name. Names that compare equal under
// these rules ("n01", "N1") are then compared byte by byte. The order is total; only identical
// names are equal.
[[nodiscard]] std::strong_ordering natural_order(std::string_view left, std::string_view right);

[[nodiscard]] bool natural_less(std::string_view left, std::string_view right);

}  // namespace muster
