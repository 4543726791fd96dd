// SPDX-License-Identifier: Apache-2.0
#include "status/rank_table.hpp"

#include "base/printable.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kNumberColumnsMax = 8;
constexpr std::size_t kTextColumnsMax = 200;
constexpr std::size_t kStateColumnsMin = 9;
constexpr std::string_view kColumnGap = "  ";

// A column: how to read a rank's value, and how to print it.
struct Column {
  std::string title;
  std::function<Json(const Json&)> value;
  std::string (*text)(const Json&);
  bool is_text = false;
};

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

double double_of(const Json& value) {
  return value.is_number() ? value.get<double>() : 0;
}

std::string whole_text(const Json& value) {
  return value.is_number_unsigned() ? fmt::format("{}", value.get<std::uint64_t>())
                                    : fmt::format("{:.0f}", double_of(value));
}

// "nan" and "inf" are strings.
std::string number_text(const Json& value) {
  return value.is_string() ? printable(value.get<std::string>(), kNumberColumnsMax)
                           : fmt::format("{:.4g}", double_of(value));
}

std::string percent_text(const Json& value) {
  return fmt::format("{:.0f} %", 100 * double_of(value));
}

std::string bytes_text(const Json& value) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double kStep = 1024;
  double count = double_of(value);
  std::size_t unit = 0;
  for (; count >= kStep && unit + 1 < kUnits.size(); ++unit) {
    count /= kStep;
  }
  return count < 10 && unit > 0 ? fmt::format("{:.1f} {}", count, kUnits.at(unit))
                                : fmt::format("{:.0f} {}", count, kUnits.at(unit));
}

std::string age_text(const Json& value) {
  const auto whole = static_cast<std::int64_t>(std::clamp(double_of(value), 0.0, kSecondsMax));
  if (whole < 60) {
    return fmt::format("{} s", whole);
  }
  return whole < 3600 ? fmt::format("{} min", whole / 60) : fmt::format("{} h", whole / 3600);
}

std::string plain_text(const Json& value) {
  return value.is_string() ? printable(value.get<std::string>(), kTextColumnsMax) : "?";
}

std::function<Json(const Json&)> reader(const char* name) {
  return [name](const Json& worker) { return field(worker, name); };
}

bool lists(const Json& finding, std::int64_t rank) {
  const Json& ranks = field(finding, "ranks");
  return ranks.is_array() && std::ranges::any_of(ranks, [&](const Json& one) {
           return one.is_number_integer() && one.get<std::int64_t>() == rank;
         });
}

// The state of a rank, or what is wrong with it.
Json state_of(const Json& status, const Json& worker) {
  const std::int64_t rank = number_of(worker, "rank");
  if (const std::string why = text_of(worker, "unhealthy"); !why.empty()) {
    return "unhealthy: " + why;
  }
  if (const std::string end = text_of(worker, "end"); !end.empty()) {
    return end;
  }
  if (lists(field(status, "hang"), rank)) {
    return "blocks the others";
  }
  return lists(field(status, "straggler"), rank) ? "slow" : text_of(worker, "state");
}

std::vector<std::string> number_names(const Json& workers) {
  std::vector<std::string> out;
  for (const Json& worker : workers) {
    const Json& numbers = field(worker, "numbers");
    if (!numbers.is_object()) {
      continue;
    }
    for (const auto& [name, value] : numbers.items()) {
      if (out.size() < kNumberColumnsMax && std::ranges::find(out, name) == out.end()) {
        out.push_back(name);
      }
    }
  }
  return out;
}

bool has_value(const Json& workers, const Column& column) {
  return std::ranges::any_of(workers,
                             [&](const Json& worker) { return !column.value(worker).is_null(); });
}

// The columns with values, the most important ones first.
std::vector<Column> wanted_columns(const Json& status) {
  const Json& workers = field(status, "workers");
  std::vector<Column> out{{"rank", reader("rank"), whole_text},
                          {"state",
                           [&status](const Json& worker) { return state_of(status, worker); },
                           plain_text,
                           true},
                          {"step", reader("step"), whole_text},
                          {"steps/s", reader("steps_per_second"), number_text}};
  for (const std::string& name : number_names(workers)) {
    out.push_back(
        {printable(name, kNumberColumnsMax * 3),
         [name](const Json& worker) { return field(field(worker, "numbers"), name.c_str()); },
         number_text});
  }
  out.push_back({"waiting", reader("waits"), percent_text});
  out.push_back({"CPU", reader("cpus"), percent_text});
  out.push_back({"memory", reader("memory"), bytes_text});
  out.push_back({"GPU", reader("gpus"), percent_text});
  out.push_back({"GPU memory", reader("gpu_memory"), bytes_text});
  out.push_back({"output", reader("output_age"), age_text});
  std::erase_if(out, [&](const Column& one) { return !has_value(workers, one); });
  return out;
}

std::string cell_of(const Column& column, const Json& worker) {
  const Json value = column.value(worker);
  return value.is_null() ? "-" : column.text(value);
}

// A column with the width of its widest cell.
struct Sized {
  Column column;
  std::size_t width = 0;
};

std::vector<Sized> fitting_columns(const Json& status, std::size_t columns) {
  std::vector<Sized> out;
  std::size_t used = 0;
  std::size_t state_wants = 0;
  for (Column& column : wanted_columns(status)) {
    std::size_t width = width_of(column.title);
    for (const Json& worker : field(status, "workers")) {
      width = std::max(width, width_of(cell_of(column, worker)));
    }
    const std::size_t least = column.is_text ? std::min(width, kStateColumnsMin) : width;
    const std::size_t gap = out.empty() ? 0 : kColumnGap.size();
    if (used + gap + least > columns) {
      continue;
    }
    used += gap + least;
    state_wants = column.is_text ? width : state_wants;
    out.push_back({std::move(column), least});
  }
  const auto found = std::ranges::find_if(out, [](const Sized& one) { return one.column.is_text; });
  if (found != out.end()) {
    found->width = std::min(state_wants, found->width + columns - used);
  }
  return out;
}

std::string padded(const std::string& text, const Sized& sized) {
  const std::string cut = shortened(text, sized.width);
  const std::string space(sized.width - width_of(cut), ' ');
  return sized.column.is_text ? cut + space : space + cut;
}

// Ranks without a value come last, in either direction.
bool comes_before(const Json& one, const Json& other, bool descending) {
  if (one.is_null() || other.is_null()) {
    return !one.is_null() && other.is_null();
  }
  if (one.is_number() && other.is_number()) {
    return descending ? one.get<double>() > other.get<double>()
                      : one.get<double>() < other.get<double>();
  }
  return descending ? one.dump() > other.dump() : one.dump() < other.dump();
}

std::vector<const Json*> sorted_workers(const Json& status,
                                        const std::vector<Sized>& columns,
                                        const TopView& view) {
  std::vector<const Json*> out;
  for (const Json& worker : field(status, "workers")) {
    out.push_back(&worker);
  }
  const auto by = std::ranges::find(
      columns, view.sort, [](const Sized& one) -> const std::string& { return one.column.title; });
  if (by != columns.end()) {
    std::ranges::stable_sort(out, [&](const Json* one, const Json* other) {
      return comes_before(by->column.value(*one), by->column.value(*other), view.descending);
    });
  }
  return out;
}

}  // namespace

std::string shortened(const std::string& line, std::size_t columns) {
  if (width_of(line) <= columns || columns == 0) {
    return columns == 0 ? "" : line;
  }
  std::size_t seen = 0;
  std::size_t at = 0;
  for (; at < line.size(); ++at) {
    const bool starts = (static_cast<unsigned char>(line[at]) & 0xc0U) != 0x80U;
    if (starts && seen++ == columns - 1) {
      break;
    }
  }
  return line.substr(0, at) + "…";
}

std::vector<std::string> rank_columns(const Json& status, std::size_t columns) {
  std::vector<std::string> out;
  for (const Sized& sized : fitting_columns(status, columns)) {
    out.push_back(sized.column.title);
  }
  return out;
}

std::vector<std::string> rank_table(const Json& status,
                                    const TopView& view,
                                    std::size_t rows,
                                    std::size_t columns) {
  const Json& workers = field(status, "workers");
  if (!workers.is_array() || workers.empty() || rows < 2) {
    return {};
  }
  const std::vector<Sized> sized = fitting_columns(status, columns);
  std::vector<std::string> out(1);
  for (const Sized& one : sized) {
    out[0] += (out[0].empty() ? "" : std::string(kColumnGap)) + padded(one.column.title, one);
  }
  const auto sorted = sorted_workers(status, sized, view);
  const std::size_t shown = std::min(sorted.size(), rows - 1);
  const std::size_t first = std::min(view.first, sorted.size() - shown);
  for (std::size_t i = first; i < first + shown; ++i) {
    std::string line;
    for (const Sized& one : sized) {
      line += (line.empty() ? "" : std::string(kColumnGap)) +
              padded(cell_of(one.column, *sorted[i]), one);
    }
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace muster
