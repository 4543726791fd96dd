// SPDX-License-Identifier: Apache-2.0
// The commands of musterctl. Each prints its result to stdout and returns the exit code or an
// error. Called once by main.
#pragma once

#include "base/error.hpp"
#include "options.hpp"

#include <cstddef>
#include <string_view>

namespace muster {

inline constexpr int kExitNotThere = 1;
inline constexpr int kExitDefects = 1;

// Maximum length of lines with names from other programs, such as stacks.
inline constexpr std::size_t kStackLineBytesMax = 400;

// Writes to stdout; main checks for write errors at the end.
void print(std::string_view text);

[[nodiscard]] Result<int> run_status(const ControlOptions& options);
[[nodiscard]] Result<int> run_events(const ControlOptions& options);
[[nodiscard]] Result<int> run_timeline(const ControlOptions& options);
[[nodiscard]] Result<int> run_url(const ControlOptions& options);
[[nodiscard]] Result<int> run_top(const ControlOptions& options);
[[nodiscard]] Result<int> run_stacks(const ControlOptions& options);
[[nodiscard]] Result<int> run_check(const ControlOptions& options);
[[nodiscard]] Result<int> run_debug(const ControlOptions& options);
[[nodiscard]] Result<int> run_profile(const ControlOptions& options);
[[nodiscard]] Result<int> run_drain(const ControlOptions& options);
[[nodiscard]] Result<int> run_forget(const ControlOptions& options);
[[nodiscard]] Result<int> run_stop(const ControlOptions& options);
[[nodiscard]] Result<int> run_resolve(const ControlOptions& options);
[[nodiscard]] Result<int> run_report(const ControlOptions& options);
[[nodiscard]] Result<int> run_flights(const ControlOptions& options);
[[nodiscard]] Result<int> run_store(const ControlOptions& options);

}  // namespace muster
