// SPDX-License-Identifier: Apache-2.0
#include "inspect.hpp"

#include "base/environ.hpp"
#include "hang/gather/inspection.hpp"
#include "hang/gather/proc_evidence.hpp"
#include "hang/gather/torch_recorders.hpp"
#include "recorder_files.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

bool is_ours(const std::string& path) {
  struct stat facts {};

  return ::stat(path.c_str(), &facts) == 0 && facts.st_uid == ::geteuid();
}

hang::Evidence known_of(const LocalJob& job) {
  hang::Evidence evidence;
  evidence.world_size = job.world_size;
  for (const LocalWorker& worker : job.workers) {
    evidence.ranks.push_back({.rank = worker.rank, .local_rank = worker.local_rank});
  }
  return evidence;
}

std::vector<pid_t> pids_of(const LocalJob& job) {
  std::vector<pid_t> pids;
  std::ranges::transform(job.workers, std::back_inserter(pids), &LocalWorker::pid);
  return pids;
}

}  // namespace

std::string py_spy_for(const LocalJob& job) {
  for (const LocalWorker& worker : job.workers) {
    const std::string process = "/proc/" + std::to_string(worker.pid);
    std::ifstream file(process + "/cmdline", std::ios::binary);
    std::string python;
    std::getline(file, python, '\0');
    const auto slash = python.rfind('/');
    const std::string beside =
        slash == std::string::npos ? "" : python.substr(0, slash) + "/py-spy";
    if (!beside.empty() && is_ours(process) && ::access(beside.c_str(), X_OK) == 0) {
      return beside;
    }
  }
  return "py-spy";
}

bool may_trace() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  return ::geteuid() == 0 || !(file >> scope) || scope == 0;
}

hang::Evidence inspect(const LocalJob& job) {
  asio::io_context loop;
  hang::Inspection inspection(
      loop,
      {.py_spy = py_spy_for(job),
       .environment = Environ::from_block(::environ).to_block(),
       .read_recorders = [&] { return read_recorders({std::to_string(job.job.agent_pid)}); }});
  hang::Evidence evidence;
  inspection.begin(known_of(job), pids_of(job), hang::kInspectionMax, [&](hang::Evidence found) {
    evidence = std::move(found);
  });
  loop.run();
  if (!may_trace()) {
    evidence.gaps.emplace_back(
        "kernel.yama.ptrace_scope allows only root to read stacks. Run 'sudo musterctl stacks'");
  }
  return evidence;
}

hang::Evidence torch_operations(const LocalJob& job) {
  asio::io_context loop;
  hang::TorchRecorders recorders(loop);
  hang::Evidence evidence = known_of(job);
  for (std::size_t i = 0; i < job.workers.size(); ++i) {
    evidence.ranks[i].processes = hang::read_processes(job.workers[i].pid);
  }
  recorders.ask(evidence.ranks, [] {});
  loop.run();
  evidence.gaps = recorders.gaps();
  recorders.add_positions(evidence.ranks);
  return evidence;
}

}  // namespace muster
