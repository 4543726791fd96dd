// SPDX-License-Identifier: Apache-2.0
// The spelling of options (names, letters, variables) and the headings of groups.
#include "config/options/settings.hpp"

#include <algorithm>

namespace muster {
namespace {

std::string variable(std::string_view prefix, std::string_view name) {
  std::string out(prefix);
  for (const char c : name) {
    out += c == '-' ? '_' : static_cast<char>(c - ('a' <= c && c <= 'z' ? 'a' - 'A' : 0));
  }
  return out;
}

}  // namespace

const Option* find_option(std::string_view name) {
  const auto same = [](char typed, char own) {
    return typed == own || (typed == '_' && own == '-');
  };
  const auto found = std::ranges::find_if(
      all_options(), [&](const Option& row) { return std::ranges::equal(name, row.name, same); });
  return found == all_options().end() ? nullptr : &*found;
}

const Option* find_letter(char letter) {
  const auto found = std::ranges::find_if(
      all_options(), [&](const Option& row) { return row.letter == letter && letter != 0; });
  return found == all_options().end() ? nullptr : &*found;
}

bool is_offered(const Option& row, Personality personality) {
  return row.id != OptionId::use_env || personality == Personality::torch_distributed_launch;
}

std::string muster_variable(const Option& row) {
  return row.kind == ValueKind::action || row.has(kNoVariable) ? "" : variable("MUSTER_", row.name);
}

std::string pet_variable(const Option& row) {
  return row.has(kPet) ? variable("PET_", row.name) : "";
}

std::string long_flag(const Option& row) {
  return "--" + std::string(row.name);
}

std::string_view heading(HelpGroup group) {
  switch (group) {
    case HelpGroup::program:
      return "What to run";
    case HelpGroup::workers:
      return "Workers and their environment";
    case HelpGroup::stopping:
      return "Failures, restarts and shutdown";
    case HelpGroup::output:
      return "Worker output";
    case HelpGroup::nodes:
      return "Nodes and addresses";
    case HelpGroup::looking:
      return "Inspection and configuration";
    case HelpGroup::compatible:
      return "Accepted for compatibility with torchrun";
  }
  return "";
}

}  // namespace muster
