// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/names.hpp"
#include "apps/muster-bench/scratch.hpp"
#include "apps/muster-bench/series.hpp"
#include "base/clock.hpp"
#include "base/fd.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster::bench {
namespace {

using namespace names;
using Words = std::vector<std::string>;

constexpr int kFewWorkers = 8;
constexpr int kSlowHungMs = 120'000;
constexpr auto kPatience = std::chrono::seconds(30);

// How a launcher is told to start `count` workers that are not Python.
struct Launcher {
  std::string name;
  std::string program;
  Words options;      // before the count
  std::string count;  // the option that takes it: "-n" or "--nproc-per-node"
  Words after;        // between the count and the worker's command
  bool fast = true;   // milliseconds, so several launches fit into a round

  [[nodiscard]] Words words(int workers, const Words& worker) const {
    Words all{program};
    all.insert(all.end(), options.begin(), options.end());
    if (!count.empty()) {
      all.push_back(count);
    }
    all.push_back(std::to_string(workers));
    all.insert(all.end(), after.begin(), after.end());
    all.insert(all.end(), worker.begin(), worker.end());
    return all;
  }
};

std::vector<Launcher> launchers(const Peers& peers) {
  return {{kFloor, peers.floor, {"spawn"}, "", {}, true},
          {kMuster, peers.muster, {}, "--nproc-per-node", {"--no-python"}, true},
          {kHydra, peers.hydra, {}, "-n", {}, true},
          {kOpenMpi, peers.open_mpi, {"--oversubscribe", "--allow-run-as-root"}, "-np", {}, true},
          {kTorchrun, peers.torchrun, {}, "--nproc-per-node", {"--no-python"}, false},
          {kFtLauncher, peers.ft_launcher, {}, "--nproc-per-node", {"--no-python"}, false}};
}

// Milliseconds from before the spawn until it was waited for.
Result<double> time_of(const Peers& peers, const Words& words, int patience_ms) {
  const auto begin = steady_now();
  auto child = Child::start({words, peers.environ});
  if (!child) {
    return std::unexpected(child.error());
  }
  const int code = child->wait(patience_ms);
  const std::chrono::duration<double, std::milli> spent = steady_now() - begin;
  if (code != 0) {
    return failure(Errc::system, fmt::format("{} ended with {}", words.front(), code));
  }
  return spent.count();
}

Result<std::vector<double>> times_of(const Peers& peers, const Words& words, int repetitions) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    const auto time = time_of(peers, words, repetitions > 1 ? kHungMs : kSlowHungMs);
    if (!time) {
      return std::unexpected(time.error());
    }
    times.push_back(*time);
  }
  return times;
}

Table launch_table(const Peers& peers, const Effort& effort) {
  auto table =
      Table::of("launch", "Launch of N × true, start to exit", "ms", {"1", "2", "8", "64"});
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const int workers = std::stoi(table.columns[column]);
    std::vector<Contestant> contestants;
    for (const auto& launcher : launchers(peers)) {
      const int repetitions = !launcher.fast ? 1 : workers > kFewWorkers ? 3 : 10;
      contestants.push_back({launcher.name,
                             !launcher.program.empty(),
                             !launcher.fast,
                             [&peers, repetitions, words = launcher.words(workers, {"/bin/true"})] {
                               return times_of(peers, words, repetitions);
                             }});
    }
    run_column(table, column, contestants, effort);
  }
  return table;
}

Table help_table(const Peers& peers, const Effort& effort) {
  auto table = Table::of("help", "Showing the help text", "ms", {"--help"});
  std::vector<Contestant> contestants;
  for (const auto& launcher : launchers(peers)) {
    if (launcher.name == kFloor) {
      continue;
    }
    contestants.push_back(
        {launcher.name,
         !launcher.program.empty(),
         !launcher.fast,
         [&peers, words = Words{launcher.program, "--help"}, repetitions = launcher.fast ? 10 : 1] {
           return times_of(peers, words, repetitions);
         }});
  }
  run_column(table, 0, contestants, effort);
  return table;
}

// Whether `count` workers have noted their start within the patience we have.
bool all_noted(const std::string& file, int count) {
  const auto deadline = steady_now() + kPatience;
  while (steady_now() < deadline) {
    std::ifstream notes(file);
    int lines = 0;
    for (std::string line; std::getline(notes, line);) {
      ++lines;
    }
    if (lines >= count) {
      return true;
    }
    poll(nullptr, 0, 10);  // nothing is timed here
  }
  return false;
}

bool is_program(pid_t pid, const std::string& path) {
  std::error_code ignored;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), ignored) == path;
}

// Peak memory of all processes of the launcher but the workers, in MB.
Result<std::vector<double>> memory_of(const Peers& peers, const Launcher& launcher) {
  const Scratch scratch;
  const auto file = scratch.path("starts");
  const auto words = launcher.words(2, {peers.floor, "idle", file});
  auto child = Child::start({words, peers.environ});
  if (!child) {
    return std::unexpected(child.error());
  }
  if (!all_noted(file, 2)) {
    return failure(Errc::timed_out, "two workers did not start within 30 s");
  }
  double kib = 0;
  std::vector<UniqueFd> workers;  // pidfds: one launcher leaves its workers running
  for (const pid_t pid : family_of(child->pid())) {
    if (is_program(pid, peers.floor)) {
      workers.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    } else {
      kib += static_cast<double>(memory_kib(pid, "VmHWM"));
    }
  }
  child->stop();
  for (const auto& worker : workers) {
    syscall(SYS_pidfd_send_signal, worker.get(), SIGKILL, nullptr, 0);
  }
  return std::vector<double>{kib * 1024 / 1e6};
}

Table memory_table(const Peers& peers, const Effort& effort) {
  auto table = Table::of("memory", "Memory of the launcher's processes, 2 workers", "MB", {"peak"});
  table.note = "Sum of the peak resident sizes of all processes of the launcher.";
  std::vector<Contestant> contestants;
  for (const auto& launcher : launchers(peers)) {
    if (launcher.name != kFloor) {
      contestants.push_back(
          {launcher.name, !launcher.program.empty(), !launcher.fast, [&peers, launcher] {
             return memory_of(peers, launcher);
           }});
    }
  }
  auto once = effort;
  once.rounds = 1;
  once.repeats = 0;  // other programs do not change it
  run_column(table, 0, contestants, once);
  return table;
}

}  // namespace

std::vector<Table> measure_launch(const Peers& peers, const Effort& effort) {
  return {launch_table(peers, effort), help_table(peers, effort), memory_table(peers, effort)};
}

}  // namespace muster::bench
