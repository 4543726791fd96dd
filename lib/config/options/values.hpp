// SPDX-License-Identifier: Apache-2.0
// Parses single values by the same rules as torchrun, which uses Python functions. Used by resolve
// and rdzv_conf. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// int(text): allows surrounding blanks, a sign, and underscores between digits.
[[nodiscard]] std::optional<std::int64_t> parse_python_int(std::string_view text);

// float(text), finite only.
[[nodiscard]] std::optional<double> parse_python_float(std::string_view text);

// A number of bytes, or a number with a unit: K, M or G (powers of 1024).
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

// A flag in a variable: bool(int(text)), as in torchrun's check_env.
[[nodiscard]] std::optional<bool> parse_number_flag(std::string_view text);

// A flag in MUSTER_ variables and config files: also accepts true/false, yes/no, on/off.
[[nodiscard]] std::optional<bool> parse_word_flag(std::string_view text);

// "a,b" yields {a, b}; "a,,b" yields {"a,b"}; "" yields {""}.
[[nodiscard]] std::vector<std::string> split_with_escapes(std::string_view text);

// "SIGTERM" or "TERM", in any case. None if there is no such signal.
[[nodiscard]] std::optional<int> signal_number(std::string_view name);

}  // namespace muster
