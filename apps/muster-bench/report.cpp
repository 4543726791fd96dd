// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/report.hpp"

#include "apps/muster-bench/goals.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace muster::bench {
namespace {

constexpr std::size_t kFewSamples = 5;  // fewer are counted in the cell

bool disturbed(const Table& table, std::size_t column) {
  return column < table.foreign.size() && table.foreign[column] > kQuietPercent;
}

std::string text_of(const Cell& cell, bool disturbed_column) {
  const auto summary = summary_of(&cell);
  if (!summary) {
    return cell.missing.empty() ? "–" : cell.missing;
  }
  const auto few =
      cell.samples.size() < kFewSamples ? fmt::format(", n={}", cell.samples.size()) : "";
  const auto failed = cell.failures > 0 ? fmt::format(", {} failed", cell.failures) : "";
  return fmt::format("{}{} ({}–{}{}{})",
                     readable(summary->median),
                     disturbed_column ? "*" : "",
                     readable(summary->least),
                     readable(summary->greatest),
                     few,
                     failed);
}

std::string foreign_line(const Table& table) {
  std::string line = "| *CPU used by others, %* |";
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    line +=
        column < table.foreign.size() ? fmt::format(" *{:.0f}* |", table.foreign[column]) : " – |";
  }
  return line + "\n";
}

nlohmann::ordered_json json_of(const Table& table) {
  nlohmann::ordered_json json{{"id", table.id},
                              {"title", table.title},
                              {"unit", table.unit},
                              {"columns", table.columns},
                              {"foreign_cpu_percent", table.foreign},
                              {"rows", nlohmann::ordered_json::array()}};
  for (const auto& row : table.rows) {
    nlohmann::ordered_json cells = nlohmann::ordered_json::array();
    for (const auto& cell : row.cells) {
      cells.push_back(
          {{"samples", cell.samples}, {"missing", cell.missing}, {"failures", cell.failures}});
    }
    json["rows"].push_back({{"name", row.name}, {"cells", cells}});
  }
  return json;
}

template <class List>
auto find_by(List& list, const std::string& wanted, auto member) {
  return std::ranges::find_if(
      list, [&](const auto& each) { return std::invoke(member, each) == wanted; });
}

}  // namespace

Table Table::of(std::string id,
                std::string title,
                std::string unit,
                std::vector<std::string> columns) {
  return {std::move(id), std::move(title), std::move(unit), std::move(columns), {}, {}, {}};
}

Row& Table::add_row(const std::string& name) {
  rows.push_back({name, std::vector<Cell>(columns.size())});
  return rows.back();
}

const Cell* find_cell(const Report& report,
                      const std::string& table,
                      const std::string& row,
                      const std::string& column) {
  const auto found = find_by(report.tables, table, &Table::id);
  if (found == report.tables.end()) {
    return nullptr;
  }
  const auto line = find_by(found->rows, row, &Row::name);
  const auto at = std::ranges::find(found->columns, column);
  if (line == found->rows.end() || at == found->columns.end()) {
    return nullptr;
  }
  return &line->cells[static_cast<std::size_t>(at - found->columns.begin())];
}

std::optional<Summary> summary_of(const Cell* cell) {
  if (cell == nullptr || cell->samples.empty()) {
    return std::nullopt;
  }
  return summarize(cell->samples);
}

std::string markdown_of(const Table& table) {
  auto text = fmt::format("### {} ({})\n\n|  |", table.title, table.unit);
  std::string rule = "|---|";
  for (const auto& column : table.columns) {
    text += fmt::format(" {} |", column);
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    text += fmt::format("| {} |", row.name);
    for (std::size_t column = 0; column < row.cells.size(); ++column) {
      text += fmt::format(" {} |", text_of(row.cells[column], disturbed(table, column)));
    }
    text += "\n";
  }
  text += foreign_line(table);
  return table.note.empty() ? text : text + "\n" + table.note + "\n";
}

namespace {

// A run of some blocks says nothing of the others.
std::vector<Verdict> judge_measured(const Report& report) {
  auto verdicts = judge(report);
  std::erase_if(verdicts, [&](const Verdict& verdict) {
    return std::ranges::find(report.tables, verdict.table, &Table::id) == report.tables.end();
  });
  return verdicts;
}

}  // namespace

bool has_samples(const Table& table) {
  return std::ranges::any_of(table.rows, [](const Row& row) {
    return std::ranges::any_of(row.cells, [](const Cell& cell) { return !cell.samples.empty(); });
  });
}

std::string markdown_of(const Report& report) {
  std::string text = "# Measured by muster-bench\n\n";
  for (const auto& condition : report.conditions) {
    text += "- " + condition + "\n";
  }
  text += fmt::format(
      "\nMedian (least–greatest). A star marks a column during which other programs used more than "
      "{} % of the machine.\n\n## Goals\n\n{}\n## Figures\n",
      kQuietPercent,
      markdown_of(judge_measured(report)));
  for (const auto& table : report.tables) {
    text += "\n" + markdown_of(table);
    text += has_samples(table) ? fmt::format("\n![{0}]({0}.svg)\n", table.id) : "";
  }
  return text;
}

std::string json_of(const Report& report) {
  nlohmann::ordered_json json{{"conditions", report.conditions},
                              {"tables", nlohmann::ordered_json::array()},
                              {"goals", nlohmann::ordered_json::array()}};
  for (const auto& table : report.tables) {
    json["tables"].push_back(json_of(table));
  }
  for (const auto& verdict : judge_measured(report)) {
    nlohmann::ordered_json goal{{"goal", verdict.text}, {"limit", verdict.limit}};
    goal["measured"] = verdict.measured ? nlohmann::ordered_json(*verdict.measured) : nullptr;
    goal["met"] = verdict.met();
    json["goals"].push_back(goal);
  }
  return json.dump(2) + "\n";
}

}  // namespace muster::bench
