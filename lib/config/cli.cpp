// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11. Its parser of command lines cannot do what torchrun's users
// type (prefixes, everything behind the script), so it serves for TOML alone.
#include "base/text.hpp"
#include "config/config_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <sstream>

namespace muster {
namespace {

using Values = std::map<OptionId, std::string>;

std::string nearest(std::string_view name) {
  const Option* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const Option& row : all_options()) {
    if (row.kind != ValueKind::action && edit_distance(name, row.name) < best_distance) {
      best = &row;
      best_distance = edit_distance(name, row.name);
    }
  }
  return best == nullptr ? "" : fmt::format("; did you mean {}?", best->name);
}

Result<void> take(const CLI::ConfigItem& item, std::string_view path, Values& values) {
  if (item.name == "++" || item.name == "--") {
    return {};  // CLI11's marks for the begin and the end of a [section]
  }
  const std::string name = item.fullname();
  const Option* row = find_option(name);
  if (row == nullptr || row->kind == ValueKind::action || row->id == OptionId::config) {
    return failure(Errc::usage,
                   fmt::format("config file {}: '{}' is no option that can be set there{}",
                               path,
                               name,
                               row == nullptr ? nearest(name) : ""));
  }
  if (item.inputs.size() > 1 && row->kind != ValueKind::text) {
    return failure(Errc::usage, fmt::format("config file {}: '{}' takes one value", path, name));
  }
  if (!values.emplace(row->id, join(item.inputs, ",")).second) {
    return failure(Errc::usage, fmt::format("config file {}: '{}' is set twice", path, name));
  }
  return {};
}

}  // namespace

Result<Values> parse_config_file(const std::string& text, std::string_view path) {
  Values values;
  try {
    std::istringstream stream(text);
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(stream)) {
      if (auto taken = take(item, path, values); !taken) {
        return std::unexpected(taken.error());
      }
    }
  } catch (const std::exception& problem) {
    return failure(Errc::usage, fmt::format("config file {}: {}", path, problem.what()));
  }
  return values;
}

}  // namespace muster
