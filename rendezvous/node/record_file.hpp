// SPDX-License-Identifier: Apache-2.0
// Files in --state-dir: locks, reads with a size limit, and durable writes. An existing file may
// come from another process or user, so only regular files that belong to this user are read.
// Stateless functions.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// Creates `folder` and its parents with access only for this user. Error: the folder cannot be
// used.
[[nodiscard]] Result<void> make_state_folder(const std::string& folder);

// True if the folder is on a network file system, where a call may block for minutes, or on a file
// system of unknown type.
[[nodiscard]] bool is_on_network(const std::string& folder);

inline constexpr std::string_view kLockSuffix = ".lock";

// Opens and locks the file, and creates it if it does not exist. Error: exhausted, if another
// process holds the lock.
[[nodiscard]] Result<UniqueFd> lock_state_file(const std::string& path);

struct StateFile {
  std::string bytes;
  Duration age{};  // time since the last write or touch
};

[[nodiscard]] Result<StateFile> read_state_file(const std::string& path, std::size_t most);

// Replaces the file atomically. With `durable`, the new contents survive a power failure after this
// function returns.
[[nodiscard]] Result<void> replace_state_file(const std::string& path,
                                              const std::string& bytes,
                                              bool durable);

// Removes the files of jobs that were killed over a month ago, unless a process holds their lock.
// Looks at most once a day, because each killed job leaves files, and a look delays the start.
void remove_old_state(const std::string& folder);

}  // namespace muster
