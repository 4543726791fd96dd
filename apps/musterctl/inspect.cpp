// SPDX-License-Identifier: Apache-2.0
#include "inspect.hpp"

#include "base/clock.hpp"
#include "base/environ.hpp"
#include "hang/positions.hpp"
#include "hang/proc_evidence.hpp"
#include "hang/stack_collector.hpp"
#include "hang/torch_recorders.hpp"
#include "recorder_files.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

// As in hang_watch: between the two looks at each thread's CPU time, and for all stacks together.
constexpr Duration kCpuWindow = std::chrono::milliseconds(250);
constexpr Duration kInspectionMax = std::chrono::seconds(25);

bool is_ours(const std::string& path) {
  struct stat facts {};

  return ::stat(path.c_str(), &facts) == 0 && facts.st_uid == ::geteuid();
}

// The one beside the Python of a worker, as the launcher takes it, else that in PATH. root runs no
// program that another user names.
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

// Yama lets a process look at its own children only, unless it is root's; those of a job are not
// ours.
bool may_trace() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  return ::geteuid() == 0 || !(file >> scope) || scope == 0;
}

// One inspection: what is asked for at once.
class Inspection {
 public:
  Inspection(const LocalJob& job, Look what)
      : job_(job),
        what_(what),
        collector_(loop_, py_spy_for(job), Environ::from_block(::environ).to_block()),
        recorders_(loop_),
        window_(loop_) {}

  hang::Evidence run() {
    evidence_.world_size = job_.world_size;
    for (const LocalWorker& worker : job_.workers) {
      evidence_.ranks.push_back({.rank = worker.rank,
                                 .local_rank = worker.local_rank,
                                 .processes = hang::read_processes(worker.pid)});
      before_.merge(hang::thread_use(evidence_.ranks.back().processes));
    }
    ask();
    loop_.run_for(kInspectionMax);
    conclude();
    return std::move(evidence_);
  }

 private:
  void ask() {
    recorders_.ask(evidence_.ranks, [this] { flights_there_ = true; });
    if (what_ == Look::torch_operations) {
      stacks_there_ = true;
      return;
    }
    before_at_ = steady_now();
    collector_.collect(evidence_.ranks, [this] { stacks_there_ = true; });
    window_.expires_after(kCpuWindow);
    window_.async_wait([](const std::error_code&) {});
  }

  void conclude() {
    const bool all_there = stacks_there_ && flights_there_;
    std::ranges::move(collector_.gaps(), std::back_inserter(evidence_.gaps));
    std::ranges::move(recorders_.gaps(), std::back_inserter(evidence_.gaps));
    collector_.cancel();
    recorders_.cancel();
    if (what_ == Look::all && !may_trace()) {
      evidence_.gaps.emplace_back(
          "kernel.yama.ptrace_scope lets only root see stacks: sudo musterctl stacks");
    }
    if (!all_there) {
      evidence_.gaps.emplace_back("some stacks did not come in time");
    }
    if (what_ == Look::all) {
      add_positions();
      const Duration window = steady_now() - before_at_;
      hang::add_cpu(evidence_.ranks, before_, std::chrono::duration<double>(window).count());
      hang::find_other_sides(evidence_.ranks);
    }
    recorders_.add_positions(evidence_.ranks);
  }

  void add_positions() {
    const auto now = static_cast<std::uint64_t>(steady_now().time_since_epoch().count());
    const auto logs = read_recorders({std::to_string(job_.job.agent_pid)});
    for (auto& [pid, position] : hang::positions_of(logs, now)) {
      const auto worker = std::ranges::find(job_.workers, pid, &LocalWorker::pid);
      if (worker != job_.workers.end()) {
        const auto at = static_cast<std::size_t>(worker - job_.workers.begin());
        evidence_.ranks.at(at).positions.push_back(std::move(position));
      }
    }
  }

  const LocalJob& job_;
  Look what_;
  asio::io_context loop_;
  hang::StackCollector collector_;
  hang::TorchRecorders recorders_;
  asio::steady_timer window_;
  hang::Evidence evidence_;
  std::map<pid_t, hang::ThreadUse> before_;
  TimePoint before_at_{};
  bool stacks_there_ = false;
  bool flights_there_ = false;
};

}  // namespace

hang::Evidence inspect(const LocalJob& job, Look what) {
  return Inspection(job, what).run();
}

}  // namespace muster
