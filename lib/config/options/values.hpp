// SPDX-License-Identifier: Apache-2.0
// Single values as torchrun's Python reads them. Used by resolve and rdzv_conf. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// int(text): blanks around, a sign, underscores between digits.
[[nodiscard]] std::optional<std::int64_t> parse_python_int(std::string_view text);

// float(text), finite only.
[[nodiscard]] std::optional<double> parse_python_float(std::string_view text);

// A flag in a variable: bool(int(text)), as torchrun's check_env.
[[nodiscard]] std::optional<bool> parse_number_flag(std::string_view text);

// A flag in our own variables and in config files: the above, and true/false, yes/no, on/off.
[[nodiscard]] std::optional<bool> parse_word_flag(std::string_view text);

// "a,b" gives {a, b}; "a,,b" gives {"a,b"}; "" gives {""}.
[[nodiscard]] std::vector<std::string> split_with_escapes(std::string_view text);

// "SIGTERM" in any case, without "SIG" too; none if there is no such signal.
[[nodiscard]] std::optional<int> signal_number(std::string_view name);

}  // namespace muster
