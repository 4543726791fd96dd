// SPDX-License-Identifier: Apache-2.0
// The natural order of names: node7 before node66, without regard to case. Decides the order of
// ranks, so that it has to be the same on every node: no locale takes part. Pure.
#pragma once

#include <compare>
#include <string_view>

namespace muster {

// Runs of digits are compared as numbers of any length, all else by letters in lower case; a digit
// comes before a letter, the shorter of two equal beginnings first. Names that are equal so ("n01",
// "N1") are then compared byte by byte: a total order, equal only for the same bytes.
[[nodiscard]] std::strong_ordering natural_order(std::string_view left, std::string_view right);

[[nodiscard]] bool natural_less(std::string_view left, std::string_view right);

}  // namespace muster
