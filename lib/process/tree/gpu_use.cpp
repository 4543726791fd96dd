// SPDX-License-Identifier: Apache-2.0
#include "process/tree/gpu_use.hpp"

#include "base/text.hpp"
#include "process/tree/tree_use.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace muster {
namespace {

constexpr std::uint64_t kMi = std::uint64_t{1} << 20;
constexpr double kPercent = 100;

// What nvidia-smi prints, by line: "GPU-1a2b, 83" and "4711, GPU-1a2b, 2048". Unknown values are
// "[N/A]".
struct SmiUse {
  std::map<std::string, double> busy;  // by UUID

  struct Process {
    pid_t pid = 0;
    std::string gpu;
    std::uint64_t memory = 0;
  };

  std::vector<Process> processes;
};

SmiUse parse_smi_use(std::string_view text) {
  SmiUse out;
  for (const std::string& line : split(text, '\n')) {
    const auto fields = split(line, ',');
    const auto number = [&](std::size_t at) {
      return std::max<std::int64_t>(0, parse_int(trim(fields[at])).value_or(0));
    };
    if (fields.size() == 2) {
      out.busy[std::string(trim(fields[0]))] = static_cast<double>(number(1)) / kPercent;
    } else if (fields.size() == 3) {
      out.processes.push_back({static_cast<pid_t>(number(0)),
                               std::string(trim(fields[1])),
                               static_cast<std::uint64_t>(number(2)) * kMi});
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> gpu_use_command() {
  return {"/bin/sh",
          "-c",
          "set -- --format=csv,noheader,nounits\n"
          "nvidia-smi --query-gpu=uuid,utilization.gpu \"$1\" &&\n"
          "nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory \"$1\""};
}

std::map<pid_t, GpuUse> sum_gpu_use(std::string_view text,
                                    std::span<const pid_t> roots,
                                    std::span<const ProcessRow> rows) {
  const SmiUse use = parse_smi_use(text);
  const auto root_of = roots_by_pid(roots, rows);
  std::map<pid_t, GpuUse> out;
  std::set<std::pair<pid_t, std::string>> counted;  // each GPU once for each root
  for (const SmiUse::Process& process : use.processes) {
    const auto root = root_of.find(process.pid);
    if (root == root_of.end()) {
      continue;
    }
    GpuUse& sum = out[root->second];
    sum.memory += process.memory;
    const auto gpu = use.busy.find(process.gpu);
    if (gpu != use.busy.end() && counted.emplace(root->second, process.gpu).second) {
      sum.busy += gpu->second;
    }
  }
  return out;
}

}  // namespace muster
