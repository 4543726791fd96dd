// SPDX-License-Identifier: Apache-2.0
#include "platform/node_files.hpp"

#include "base/text.hpp"
#include "platform/host_list.hpp"

#include <algorithm>
#include <cctype>

namespace muster {
namespace {

void add_once(std::string_view name, std::vector<std::string>& names) {
  if (!name.empty() && name.size() <= kWordMax && names.size() < kHostsMax &&
      std::ranges::find(names, name) == names.end()) {
    names.emplace_back(name);
  }
}

std::vector<std::string> words(std::string_view line) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : line) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) {
    out.push_back(std::move(word));
  }
  return out;
}

SaidNames or_none(std::vector<std::string> names, std::string_view origin) {
  return names.empty() ? SaidNames{} : SaidNames({std::move(names), std::string(origin)});
}

// The first word of each line; skips blank lines.
SaidNames names_in_file(const PlatformFacts& facts, std::string_view variable) {
  const auto path = facts.text(variable);
  const auto text = path ? facts.read_file(path->value) : Result<std::string>("");
  std::vector<std::string> names;
  for (const std::string& line : split(text.value_or(""), '\n')) {
    if (const auto parts = words(line); !parts.empty()) {
      add_once(parts.front(), names);
    }
  }
  return or_none(std::move(names), variable);
}

// If a system has a launch node that runs no compute tasks, LSF lists that node first.
void drop_launch_node(std::vector<std::string>& names) {
  const auto is_launch = [](const std::string& name) {
    return name.find("batch") != std::string::npos || name.find("login") != std::string::npos;
  };
  if (names.size() > 1 && is_launch(names.front())) {
    names.erase(names.begin());
  }
}

// oarexecuser.sh exports the same path under several names; scripts commonly read these three.
std::string_view node_file_of_oar(const PlatformFacts& facts) {
  for (const std::string_view variable : {"OAR_NODEFILE", "OAR_NODE_FILE", "OAR_FILE_NODES"}) {
    if (facts.has(variable)) {
      return variable;
    }
  }
  return "OAR_NODEFILE";
}

}  // namespace

SaidNames names_of_pbs(const PlatformFacts& facts) {
  return facts.has("PBS_JOBID") ? names_in_file(facts, "PBS_NODEFILE") : std::nullopt;
}

SaidNames names_of_cobalt(const PlatformFacts& facts) {
  return facts.has("COBALT_JOBID") ? names_in_file(facts, "COBALT_NODEFILE") : std::nullopt;
}

SaidNames names_of_oar(const PlatformFacts& facts) {
  return facts.has("OAR_JOB_ID") ? names_in_file(facts, node_file_of_oar(facts)) : std::nullopt;
}

SaidNames names_of_lsf(const PlatformFacts& facts) {
  if (!facts.has("LSB_JOBID")) {
    return std::nullopt;
  }
  // LSB_MCPU_HOSTS is "hostA 4 hostB 2"; the fallback is "hostA hostA hostB".
  const auto counted = facts.text("LSB_MCPU_HOSTS");
  const auto repeated = facts.text("LSB_HOSTS");
  if (!counted && !repeated) {
    return std::nullopt;
  }
  const auto parts = words(counted ? counted->value : repeated->value);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < parts.size(); i += counted ? 2U : 1U) {
    add_once(parts[i], names);
  }
  drop_launch_node(names);
  return or_none(std::move(names), counted ? counted->origin : repeated->origin);
}

SaidNames names_of_sge(const PlatformFacts& facts) {
  return facts.has_all({"SGE_ROOT", "JOB_ID"}) ? names_in_file(facts, "PE_HOSTFILE") : std::nullopt;
}

}  // namespace muster
