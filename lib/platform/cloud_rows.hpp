// SPDX-License-Identifier: Apache-2.0
// CloudRow: a platform that tells a machine all it needs in plain variables. One row of the table
// in cloud_rows.cpp is all that such a platform takes. Read-only data and pure functions.
#pragma once

#include "platform/platforms.hpp"

namespace muster {

// Empty: the platform has no such variable.
struct CloudRow {
  std::string_view name{};
  std::string_view title{};
  std::string_view marker{};      // must be set
  std::string_view marker_too{};  // this one as well
  std::string_view machines{};    // how many
  std::string_view machine{};     // which one this is
  std::string_view workers{};     // on each machine
  bool machines_counts_workers = false;
  int workers_fixed = 0;    // 0: no such rule
  std::string_view gpus{};  // on each machine: a worker for each
  std::string_view host{};
  std::string_view port{};
  std::string_view run_id{};
  bool dialled_by_workers = true;
  bool is_hint = false;  // users set the marker themselves, too
};

// None: the markers are not here, or not all that the row needs.
[[nodiscard]] std::optional<PlatformPlan> read_cloud(const CloudRow& row,
                                                     const PlatformFacts& facts);

[[nodiscard]] std::vector<PlatformRow> cloud_rows();

}  // namespace muster
