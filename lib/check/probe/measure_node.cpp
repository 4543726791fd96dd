// SPDX-License-Identifier: Apache-2.0
#include "check/probe/measure_node.hpp"

#include "base/stream_writer.hpp"
#include "base/time.hpp"
#include "check/check_json.hpp"
#include "check/probe/gpu_query.hpp"
#include "check/probe/link_probe.hpp"
#include "check/probe/speed_probe.hpp"
#include "check/probe/system_probe.hpp"
#include "machine/linux_machine.hpp"
#include "process/start/program_output.hpp"

#include <fmt/core.h>

#include <functional>
#include <string>
#include <vector>

namespace muster::check {
namespace {

constexpr std::size_t kSmiBytesMax = std::size_t{64} * 1024;
constexpr Duration kWriteTimeout = std::chrono::seconds(1);

struct Step {
  std::string name;
  std::function<void(NodeFigures& out)> run;
  bool needs_idle_node = false;
};

void read_cpus(NodeFigures& out) {
  out.values[Metric::cpus] = LinuxMachine().usable_cpus().count;
}

void read_cpu_speed(NodeFigures& out) {
  out.values[Metric::cpu_speed] = measure_cpu(kCpuTime);
}

void read_memory_speed(NodeFigures& out) {
  if (const auto rate = measure_memory(kMemoryTime)) {
    out.values[Metric::memory_bandwidth] = *rate;
  } else {
    out.unmeasured.push_back("memory bandwidth: " + rate.error().message);
  }
}

// Without nvidia-smi, GPUs are only counted.
void read_gpus(const Environ& environ, NodeFigures& out) {
  std::vector<std::string> argv{"nvidia-smi"};
  for (std::string& argument : gpu_query_arguments()) {
    argv.push_back(std::move(argument));
  }
  const auto text = program_output({argv, environ.to_block(), kSmiTimeout, kSmiBytesMax});
  const bool is_there = text || text.error().code != Errc::not_found;
  if (!is_there) {
    out.values[Metric::gpus] = LinuxMachine().usable_gpus(environ).count;
  } else if (!text) {
    out.unmeasured.push_back("GPUs: " + text.error().message);
  } else if (!parse_gpu_query(*text, out)) {
    out.values[Metric::gpus] = 0;
  }
}

// On a busy node, the speeds take longest and have to be last.
std::vector<Step> steps_of(const Environ& environ) {
  const std::string folder(environ.get(kLogFolderVariable).value_or(""));
  return {{"limits", read_limits},
          {"CPUs", read_cpus},
          {"available memory", read_memory},
          {"/dev/shm", read_shm},
          {"log folder '" + folder + "'",
           [folder](NodeFigures& out) {
             if (!folder.empty()) {
               read_log_folder(folder, out);
             }
           }},
          {"GPUs", [&environ](NodeFigures& out) { read_gpus(environ, out); }},
          {"CPU speed", read_cpu_speed, true},
          {"memory bandwidth", read_memory_speed, true}};
}

bool print(const NodeFigures& figures) {
  return write_within(1, encode(figures) + "\n", kWriteTimeout);
}

}  // namespace

int run_measure_node(const Environ& environ) {
  if (const auto links = environ.get(kLinksVariable)) {
    return run_measure_links(*links);
  }
  NodeFigures figures{.workers_ran = environ.get(kWorkersVariable).has_value()};
  for (const Step& step : steps_of(environ)) {
    if (step.needs_idle_node && figures.workers_ran) {
      continue;
    }
    NodeFigures pending = figures;
    pending.unmeasured.push_back(step.name + ": no result in time");
    if (!print(pending)) {
      return 1;
    }
    step.run(figures);
  }
  return print(figures) ? 0 : 1;
}

}  // namespace muster::check
