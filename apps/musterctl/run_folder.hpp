// SPDX-License-Identifier: Apache-2.0
// Files in a run's log directory, for jobs that have ended. Stateless.
#pragma once

#include "base/error.hpp"
#include "status/job_status.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The file with this name in the folder itself, otherwise in the newest subfolder that has one.
// Error: not_found.
[[nodiscard]] Result<std::string> find_in_runs(const std::string& folder, const char* name);

// The subfolders with an events.jsonl, newest first, at most `count`.
[[nodiscard]] std::vector<std::string> newest_runs(const std::string& folder, std::size_t count);

// Passes each complete line of the file to the callback, including its line break. Error:
// not_possible.
[[nodiscard]] Result<void> read_lines(const std::string& path,
                                      const std::function<void(std::string_view)>& take);

// The job status that results from the events in events.jsonl.
[[nodiscard]] Result<JobStatus> read_status(const std::string& folder);

}  // namespace muster
