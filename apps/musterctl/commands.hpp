// SPDX-License-Identifier: Apache-2.0
// What musterctl's commands do. Each prints its answer on stdout and returns the exit code, or says
// what failed. Called once by main.
#pragma once

#include "base/error.hpp"
#include "options.hpp"

#include <cstddef>
#include <string_view>

namespace muster {

inline constexpr int kExitNotThere = 1;

// Lines of stacks and the like, whose names come from other programs.
inline constexpr std::size_t kStackLineBytesMax = 400;

// To stdout; main asks at the end whether all of it arrived.
void print(std::string_view text);

// One line on standard error.
void warn(const std::string& text);

[[nodiscard]] Result<int> run_status(const ControlOptions& options);
[[nodiscard]] Result<int> run_events(const ControlOptions& options);
[[nodiscard]] Result<int> run_timeline(const ControlOptions& options);
[[nodiscard]] Result<int> run_url(const ControlOptions& options);
[[nodiscard]] Result<int> run_top(const ControlOptions& options);
[[nodiscard]] Result<int> run_stacks(const ControlOptions& options);
[[nodiscard]] Result<int> run_drain(const ControlOptions& options);
[[nodiscard]] Result<int> run_forget(const ControlOptions& options);
[[nodiscard]] Result<int> run_stop(const ControlOptions& options);
[[nodiscard]] Result<int> run_resolve(const ControlOptions& options);
[[nodiscard]] Result<int> run_report(const ControlOptions& options);
[[nodiscard]] Result<int> run_flights(const ControlOptions& options);
[[nodiscard]] Result<int> run_store(const ControlOptions& options);

}  // namespace muster
