// SPDX-License-Identifier: Apache-2.0
// The current environment of a descendant, read from its memory. It includes changes made with
// setenv, putenv and Python's os.environ, which /proc/<pid>/environ does not show. Works for
// programs that link a C library dynamically. Takes less than a millisecond. Used by the agent; the
// memory reader is a parameter so that tests can replace it.
#pragma once

#include "process/tree/loaded_symbol.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace muster {

inline constexpr std::size_t kVariablesMax = 8192;
inline constexpr std::size_t kVariableBytesMax = 256;  // longer values are truncated

// The variables in `names` that the process has. None if they cannot be read: the process has
// exited, belongs to another user or is statically linked, or the kernel forbids it (yama,
// seccomp).
[[nodiscard]] std::optional<std::map<std::string, std::string>> live_variables(
    pid_t pid, const std::vector<std::string>& names);

// A program or library in a process's memory, and the address of its first page.
struct LoadedFile {
  std::string path;
  std::uint64_t base = 0;
};

// Parses the text of /proc/<pid>/maps. Pure.
[[nodiscard]] std::vector<LoadedFile> loaded_files(std::string_view maps);

// The text of /proc/<pid>/maps; empty if it cannot be read.
[[nodiscard]] std::string maps_of(pid_t pid);

[[nodiscard]] ReadMemory memory_of(pid_t pid);

// Base addresses of the files that may define `environ`, from the text of /proc/<pid>/maps. The
// program is listed before the C library, because it may contain its own copy of the library's
// variable. Pure.
[[nodiscard]] std::vector<std::uint64_t> bases_of_environ(std::string_view maps,
                                                          std::string_view program);

// The variables that the pointer at `environ` points to. Pure.
[[nodiscard]] std::optional<std::map<std::string, std::string>> variables_at(
    const ReadMemory& read, std::uint64_t environ, const std::vector<std::string>& names);

}  // namespace muster
