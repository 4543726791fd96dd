// SPDX-License-Identifier: Apache-2.0
// The environment of a process below us as it is in its memory now: what setenv, putenv and
// Python's os.environ have changed since it was started, which /proc/<pid>/environ does not show.
// For programs that are linked with a C library dynamically; of others nothing is known. Takes less
// than a millisecond. Used by the agent; the reader of memory is an argument for the tests.
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
inline constexpr std::size_t kVariableBytesMax = 256;  // longer ones are cut

// Those of `names` that the process has. None where it cannot be read: its end, another user's, a
// static program, or the kernel's own rules (yama, seccomp).
[[nodiscard]] std::optional<std::map<std::string, std::string>> live_variables(
    pid_t pid, const std::vector<std::string>& names);

// A program or library in the memory of a process, and where its first page is.
struct LoadedFile {
  std::string path;
  std::uint64_t base = 0;
};

// From the text of /proc/<pid>/maps. Pure.
[[nodiscard]] std::vector<LoadedFile> loaded_files(std::string_view maps);

// That text; empty if it cannot be read.
[[nodiscard]] std::string maps_of(pid_t pid);

[[nodiscard]] ReadMemory memory_of(pid_t pid);

// Where the files lie whose `environ` counts, from the text of /proc/<pid>/maps: that of the
// program before that of the C library, since programs may hold the variable of the library. Pure.
[[nodiscard]] std::vector<std::uint64_t> bases_of_environ(std::string_view maps,
                                                          std::string_view program);

// What the pointer at `environ` leads to. Pure.
[[nodiscard]] std::optional<std::map<std::string, std::string>> variables_at(
    const ReadMemory& read, std::uint64_t environ, const std::vector<std::string>& names);

}  // namespace muster
