// SPDX-License-Identifier: Apache-2.0
// What was measured, as values: tables of samples (a row for each peer, a column for each size),
// and how they are printed as Markdown and JSON. A peer that is absent keeps its row and says so.
// Pure; filled by the blocks, read by goals and plot.
#pragma once

#include "apps/muster-bench/stats.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::bench {

struct Cell {
  std::vector<double> samples;
  std::string missing;  // why there are none: "not installed", "failed", "" for not measured
  int failures = 0;     // attempts that failed or hung
};

struct Row {
  std::string name;
  std::vector<Cell> cells;  // one for each column
};

struct Table {
  std::string id;  // names the plot's file
  std::string title;
  std::string unit;
  std::vector<std::string> columns;
  std::vector<Row> rows;
  std::vector<double> foreign;  // for each column: share of the machine that others used, percent
  std::string note;

  // A table of empty cells.
  [[nodiscard]] static Table of(std::string id,
                                std::string title,
                                std::string unit,
                                std::vector<std::string> columns);
  Row& add_row(const std::string& name);
};

// Columns during which others used more than this are marked with a star.
inline constexpr double kQuietPercent = 6;

struct Report {
  std::vector<std::string> conditions;  // machine, versions, switches
  std::vector<Table> tables;
};

[[nodiscard]] const Cell* find_cell(const Report& report,
                                    const std::string& table,
                                    const std::string& row,
                                    const std::string& column);

[[nodiscard]] std::optional<Summary> summary_of(const Cell* cell);

// Else there is nothing to draw.
[[nodiscard]] bool has_samples(const Table& table);

[[nodiscard]] std::string markdown_of(const Table& table);
[[nodiscard]] std::string markdown_of(const Report& report);
[[nodiscard]] std::string json_of(const Report& report);

}  // namespace muster::bench
