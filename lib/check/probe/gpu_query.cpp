// SPDX-License-Identifier: Apache-2.0
#include "check/probe/gpu_query.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>

namespace muster::check {
namespace {

// The order of the fields in a line.
enum Field : std::size_t { ecc, hardware, heat, power, memory, kFields };

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(trim(line.substr(0, comma)));
    if (comma == std::string_view::npos) {
      return fields;
    }
    line.remove_prefix(comma + 1);
  }
}

double number(std::string_view text) {
  return static_cast<double>(parse_int(text).value_or(0));
}

}  // namespace

std::vector<std::string> gpu_query_arguments() {
  return {
      "--query-gpu=ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.hw_slowdown,"
      "clocks_throttle_reasons.hw_thermal_slowdown,"
      "clocks_throttle_reasons.hw_power_brake_slowdown,memory.used",
      "--format=csv,noheader,nounits"};
}

bool parse_gpu_query(std::string_view text, NodeFigures& out) {
  double gpus = 0;
  double errors = 0;
  double throttled = 0;
  double used = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const auto fields = fields_of(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (fields.size() != kFields) {
      continue;
    }
    ++gpus;
    errors += number(fields[ecc]);
    const std::array reasons{fields[hardware], fields[heat], fields[power]};
    throttled += std::ranges::find(reasons, "Active") != reasons.end() ? 1 : 0;
    used = std::max(used, number(fields[memory]) * kMi);
  }
  if (gpus == 0) {
    return false;
  }
  out.values[Metric::gpus] = gpus;
  out.values[Metric::gpu_ecc_errors] = errors;
  out.values[Metric::gpus_throttled] = throttled;
  out.values[Metric::gpu_memory_used] = used;
  return true;
}

}  // namespace muster::check
