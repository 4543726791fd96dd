// SPDX-License-Identifier: Apache-2.0
// What a file is that the kernel refuses to execute (ENOEXEC), from its first bytes: a program for
// another machine or system, or a damaged one. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::size_t kFileHeadBytes = 64;  // as an ELF header has

// "it is a program for aarch64, and this machine is x86_64". `machine` is that of uname(2).
[[nodiscard]] std::string why_not_executed(std::string_view head, std::string_view machine);

}  // namespace muster
