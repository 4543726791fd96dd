// SPDX-License-Identifier: Apache-2.0
// Files under --state-dir: locks, bounded reads and durable writes. Another process or user may
// have made what is there, so only regular files that belong to this user are read.
// Functions without state.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace muster {

// Makes `folder` and its parents, for this user alone. Error: the folder cannot be used.
[[nodiscard]] Result<void> make_state_folder(const std::string& folder);

// A call on a network file system may block for minutes. True if that is unknown.
[[nodiscard]] bool is_on_network(const std::string& folder);

inline constexpr std::string_view kLockSuffix = ".lock";

// Creates the file if it is missing. Error: busy, if another process holds the lock.
[[nodiscard]] Result<UniqueFd> lock_state_file(const std::string& path);

struct StateFile {
  std::string bytes;
  Duration age{};  // since the last write or touch
};

[[nodiscard]] Result<StateFile> read_state_file(const std::string& path, std::size_t most);

// Replaces the file as a whole. `durable`: it survives a loss of power once this returns.
[[nodiscard]] Result<void> replace_state_file(const std::string& path,
                                              const std::string& bytes,
                                              bool durable);

// Removes the files of jobs that were killed a month ago, unless a process holds their lock.
void remove_old_state(const std::string& folder);

}  // namespace muster
