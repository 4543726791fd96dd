// SPDX-License-Identifier: Apache-2.0
// muster-bench: the measured blocks (launch, restart, nodes, store, collective, pump, all) and the
// single tools.
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/plot.hpp"
#include "apps/muster-bench/tools.hpp"
#include "base/clock.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace muster::bench {
namespace {

using Block = std::function<std::vector<Table>(const Peers&, const Effort&)>;

struct Options {
  Where where;
  std::string out;
  bool quick = false;
  std::vector<std::string> wanted;
};

const std::vector<std::pair<std::string, Block>>& blocks() {
  static const std::vector<std::pair<std::string, Block>> kAll{{"launch", measure_launch},
                                                               {"restart", measure_restart},
                                                               {"nodes", measure_nodes},
                                                               {"crowds", measure_crowds},
                                                               {"scale", measure_scale},
                                                               {"store", measure_store},
                                                               {"collective", measure_collective},
                                                               {"pump", measure_pump}};
  return kAll;
}

Effort effort_of(const Options& options) {
  Effort effort;
  effort.repeat_until = steady_now() + std::chrono::minutes(5);
  if (options.quick) {
    effort = {.rounds = 3,
              .slow_rounds = 1,
              .repeats = 0,
              .seconds = 0.1,
              .storm = 2'000,
              .flood_mib = 8};
  }
  return effort;
}

std::string processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "unknown processor";
}

std::vector<std::string> conditions(const Options& options, const Effort& effort) {
  utsname system{};
  uname(&system);
  return {fmt::format("{} × {}, {} {}",
                      sysconf(_SC_NPROCESSORS_ONLN),
                      processor(),
                      system.sysname,
                      system.release),
          fmt::format("{}{}, {} rounds in turn, at most {} repetitions of disturbed columns",
                      describe_wall_time(wall_now_seconds()),
                      options.quick ? " (quick)" : "",
                      effort.rounds,
                      effort.repeats)};
}

bool write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) {
    fmt::print(stderr, "muster-bench: cannot write {}\n", path.string());
  }
  return !file.fail();
}

int save(const Report& report, const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  bool written = write_file(folder / "results.md", markdown_of(report)) &&
                 write_file(folder / "results.json", json_of(report));
  for (const auto& table : report.tables) {
    written =
        written && (!has_samples(table) || write_file(folder / (table.id + ".svg"), svg_of(table)));
  }
  return written ? 0 : 1;
}

// The storm needs a descriptor for each client.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

int run_blocks(const Options& options) {
  const auto peers = find_peers(options.where, Environ::from_block(environ));
  const auto effort = effort_of(options);
  Report report{conditions(options, effort), {}};
  for (const auto& [name, block] : blocks()) {
    if (std::ranges::find(options.wanted, name) == options.wanted.end()) {
      continue;
    }
    fmt::print(stderr, "{}\n", name);
    for (auto& table : block(peers, effort)) {
      fmt::print("{}\n", markdown_of(table));
      static_cast<void>(std::fflush(stdout));
      report.tables.push_back(std::move(table));
    }
  }
  return options.out.empty() ? 0 : save(report, options.out);
}

void add_blocks(CLI::App& app, Options& options) {
  app.add_option("--muster", options.where.muster, "the launcher to measure");
  app.add_option("--muster-store", options.where.muster_store, "the store server to measure");
  app.add_option("--torch-env", options.where.torch_env, "virtual environment with PyTorch");
  app.add_option("--ft-env", options.where.ft_env, "virtual environment with ft_launcher");
  app.add_option("--out", options.out, "folder for results.md, results.json and the plots");
  app.add_flag("--quick", options.quick, "a rough look: fewer rounds, shorter spans");
  const auto note = [&options](const std::string& name) { options.wanted.push_back(name); };
  app.add_subcommand("all", "every block")->fallthrough()->callback([note] {
    for (const auto& [name, block] : blocks()) {
      note(name);
    }
  });
  for (const auto& [name, block] : blocks()) {
    app.add_subcommand(name, "only this block (several can be given)")
        ->fallthrough()
        ->callback([note, only = name] { note(only); });
  }
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::raise_descriptor_limit();
  CLI::App app("muster-bench: measures muster beside its peers");
  app.require_subcommand(1, 0);
  int exit_code = 0;
  muster::bench::Options options;
  muster::bench::add_blocks(app, options);
  muster::bench::add_tools(app, exit_code);
  CLI11_PARSE(app, argc, argv);
  return options.wanted.empty() ? exit_code : muster::bench::run_blocks(options);
}
