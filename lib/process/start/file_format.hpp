// SPDX-License-Identifier: Apache-2.0
// Explains why the kernel refuses to execute a file (ENOEXEC), from its first bytes: the program is
// for another machine or system, or it is damaged. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::size_t kFileHeadBytes = 64;  // size of an ELF header

// `machine` is the machine name from uname(2).
[[nodiscard]] std::string why_not_executed(std::string_view head, std::string_view machine);

}  // namespace muster
