// SPDX-License-Identifier: Apache-2.0
// CloudRow: a platform that provides all values in plain variables. To support such a platform, add
// one row to the table in cloud_rows.cpp. Read-only data and pure functions.
#pragma once

#include "platform/platforms.hpp"

namespace muster {

// Fields are empty if the platform has no such variable.
struct CloudRow {
  std::string_view name{};
  std::string_view title{};
  std::string_view marker{};      // variable that must be set
  std::string_view marker_too{};  // second variable that must be set; empty if there is none
  std::string_view machines{};    // the number of nodes
  std::string_view machine{};     // the index of this node
  std::string_view workers{};     // workers per node
  bool machines_counts_workers = false;
  int workers_fixed = 0;    // 0 if not fixed
  std::string_view gpus{};  // GPUs per node; one worker per GPU
  std::string_view host{};
  std::string_view port{};
  std::string_view run_id{};
  bool dialled_by_workers = true;
  bool is_hint = false;  // users may set the marker themselves
};

// None if the markers or required variables are missing.
[[nodiscard]] std::optional<PlatformPlan> read_cloud(const CloudRow& row,
                                                     const PlatformFacts& facts);

[[nodiscard]] std::vector<PlatformRow> cloud_rows();

}  // namespace muster
