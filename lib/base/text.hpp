// SPDX-License-Identifier: Apache-2.0
// Small text helpers that are missing from the standard library. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Splits "a,,b" at ',' into {"a", "", "b"}, and "" into {""}.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Removes whitespace from both ends.
[[nodiscard]] std::string_view trim(std::string_view text);

// Parses the whole text as a decimal number, in the syntax of Python's int(): surrounding
// whitespace and a sign are allowed. None for any other text, or if the number does not fit.
[[nodiscard]] std::optional<std::int64_t> parse_int(std::string_view text);

[[nodiscard]] std::string to_lower(std::string_view text);

// The number of single-character edits (insert, delete, replace, swap adjacent) between two words.
[[nodiscard]] std::size_t edit_distance(std::string_view left, std::string_view right);

// Adds single quotes if a shell needs them. For messages that contain command lines.
[[nodiscard]] std::string shell_quoted(std::string_view word);

// True if a variable's name suggests a secret (TOKEN, SECRET, PASSWORD, KEY …).
[[nodiscard]] bool names_a_secret(std::string_view variable);

// Replaces the value of each "NAME=VALUE" by "***" if its name suggests a secret.
[[nodiscard]] std::vector<std::string> without_secrets(std::vector<std::string> assignments);

}  // namespace muster
