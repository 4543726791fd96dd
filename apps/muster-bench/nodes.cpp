// SPDX-License-Identifier: Apache-2.0
// Jobs of many nodes, all agents on this machine: to form and end, and to be whole again after a
// loss or a gain.
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/connection.hpp"
#include "apps/muster-bench/names.hpp"
#include "apps/muster-bench/scratch.hpp"
#include "apps/muster-bench/series.hpp"
#include "apps/muster-bench/trace.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include <poll.h>
#include <signal.h>

namespace muster::bench {
namespace {

using namespace names;
using Words = std::vector<std::string>;

constexpr int kFormHungMs = 120'000;
constexpr auto kPatience = std::chrono::seconds(20);
constexpr auto kStartPatience = std::chrono::seconds(60);
constexpr double kNapMs = 300;  // hydra dies of SIGPIPE on shorter jobs; taken off again

struct Job {
  std::string launcher;
  std::string nodes;  // --nnodes
  std::string conf;   // more of --rdzv-conf
  Words worker;
  std::uint16_t port = 0;

  // The first agent hosts, whoever is quicker.
  [[nodiscard]] Words words(bool hosts) const {
    Words all{launcher,
              "--nnodes=" + nodes,
              "--nproc-per-node=1",
              "--max-restarts=100",
              "--rdzv-backend=c10d",
              "--rdzv-id=bench",
              fmt::format("--rdzv-endpoint=127.0.0.1:{}", port),
              fmt::format("--rdzv-conf=is_host={}{}", hosts ? 1 : 0, conf),
              "--no-python"};
    all.insert(all.end(), worker.begin(), worker.end());
    return all;
  }
};

double milliseconds_since(TimePoint begin) {
  return std::chrono::duration<double, std::milli>(steady_now() - begin).count();
}

// -- forming ----------------------------------------------------------------------------------

Result<std::vector<double>> form(const std::string& launcher, int agents, const Peers& peers) {
  const Job job{launcher, std::to_string(agents), "", {"/bin/true"}, free_port().value_or(0)};
  std::vector<Child> children;
  const auto begin = steady_now();
  for (int i = 0; i < agents; ++i) {
    auto child = Child::start({job.words(i == 0), peers.environ});
    if (!child) {
      return std::unexpected(child.error());
    }
    children.push_back(std::move(*child));
  }
  for (Child& child : children) {
    if (const int code = child.wait(kFormHungMs); code != 0) {
      return failure(Errc::system, fmt::format("{} ended with {}", launcher, code));
    }
  }
  return std::vector{milliseconds_since(begin)};
}

Result<std::vector<double>> form_hydra(int proxies, const Peers& peers) {
  std::string hosts;
  for (int i = 1; i <= proxies; ++i) {
    hosts += fmt::format("{}127.0.1.{}", i > 1 ? "," : "", i);
  }
  const Words words{peers.hydra,
                    "-launcher",
                    "fork",
                    "-hosts",
                    hosts,
                    "-ppn",
                    "1",
                    "-n",
                    std::to_string(proxies),
                    "/bin/sleep",
                    fmt::format("{}", kNapMs / 1000)};
  const auto begin = steady_now();
  auto child = Child::start({words, peers.environ});
  if (!child) {
    return std::unexpected(child.error());
  }
  if (const int code = child->wait(kFormHungMs); code != 0) {
    return failure(Errc::system, fmt::format("{} ended with {}", peers.hydra, code));
  }
  return std::vector{milliseconds_since(begin) - kNapMs};
}

Table form_table(const Peers& peers, const Effort& effort) {
  auto table = Table::of("nodes",
                         "N agents on one machine, 1 × true each, start to last exit",
                         "ms",
                         {"2", "8", "32"});
  table.note = fmt::format(
      "mpiexec.hydra with as many proxies runs `sleep {}` instead, which is taken off: it dies of "
      "SIGPIPE on shorter jobs.",
      kNapMs / 1000);
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const int agents = std::stoi(table.columns[column]);
    const auto agent = [&](const std::string& name, const std::string& program, bool slow) {
      return Contestant{name, !program.empty(), slow, [&peers, program, agents] {
                          return form(program, agents, peers);
                        }};
    };
    run_column(table,
               column,
               {agent(kMuster, peers.muster, false),
                Contestant{kHydra,
                           !peers.hydra.empty(),
                           false,
                           [&peers, agents] { return form_hydra(agents, peers); }},
                agent(kTorchrun, peers.torchrun, true)},
               effort);
  }
  return table;
}

// -- whole again ------------------------------------------------------------------------------

enum class Change { worker_dies, agent_dies, host_dies, agent_joins };

std::vector<Member> members_in(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return members_of(text.str());
}

// Polls for the notes; what is measured are the times that the workers noted.
Result<std::vector<Member>> wait_for(const std::string& file,
                                     std::size_t count,
                                     Duration patience) {
  const auto deadline = steady_now() + patience;
  while (steady_now() < deadline) {
    if (auto members = members_in(file); members.size() >= count) {
      return members;
    }
    poll(nullptr, 0, 2);
  }
  return failure(Errc::timed_out,
                 fmt::format("{} of {} workers started within {}",
                             members_in(file).size(),
                             count,
                             describe(patience)));
}

struct Recovery {
  Change change;
  std::size_t agents;
  std::size_t after;  // workers that run again
};

// Milliseconds from the change to the start of the last worker of the new round.
Result<std::vector<double>> recover(const std::string& launcher,
                                    const Recovery& recovery,
                                    const Peers& peers) {
  const Scratch scratch;
  const auto notes = scratch.path("notes");
  const bool joins = recovery.change == Change::agent_joins;
  const Job job{launcher,
                fmt::format("1:{}", joins ? recovery.agents + 1 : recovery.agents),
                joins ? ",last_call_timeout=1" : "",
                {peers.floor, "member", notes},
                free_port().value_or(0)};
  std::vector<Child> children;
  for (std::size_t i = 0; i < recovery.agents; ++i) {
    auto child = Child::start({job.words(i == 0), peers.environ});
    if (!child) {
      return std::unexpected(child.error());
    }
    children.push_back(std::move(*child));
  }
  const auto before = wait_for(notes, recovery.agents, kStartPatience);
  if (!before) {
    return std::unexpected(before.error());
  }
  const auto begin = steady_now();
  switch (recovery.change) {
    case Change::worker_dies:
      kill(before->back().pid, SIGKILL);
      break;
    case Change::agent_dies:
      children.back().kill_now();
      break;
    case Change::host_dies:
      children.front().kill_now();
      break;
    case Change::agent_joins: {
      auto child = Child::start({job.words(false), peers.environ});
      if (!child) {
        return std::unexpected(child.error());
      }
      children.push_back(std::move(*child));
    }
  }
  const auto all = wait_for(notes, recovery.agents + recovery.after, kPatience);
  if (!all) {
    return std::unexpected(all.error());
  }
  const auto last = all->at(recovery.agents + recovery.after - 1).nanoseconds;
  return std::vector{static_cast<double>(last - begin.time_since_epoch().count()) / 1e6};
}

Table recovery_table(const Peers& peers, const Effort& effort) {
  auto table = Table::of("nodes-recovery",
                         "From a change until all workers run again (agents of one worker each)",
                         "ms",
                         {"worker dies, 4 agents",
                          "agent dies, 4 agents",
                          "host's agent dies, 4 agents",
                          "agent joins, 1 → 2"});
  table.note = fmt::format(
      "An agent dies by SIGKILL together with its worker, as when a node dies; nobody replaces it. "
      "\"failed\": not within {}.",
      describe(kPatience));
  const std::vector<Recovery> recoveries{{Change::worker_dies, 4, 4},
                                         {Change::agent_dies, 4, 3},
                                         {Change::host_dies, 4, 3},
                                         {Change::agent_joins, 1, 2}};
  auto more = effort;
  more.rounds = 20;  // milliseconds each with muster; peers that need seconds take fewer
  for (std::size_t column = 0; column < recoveries.size(); ++column) {
    const auto under = [&](const std::string& name, const std::string& program, bool slow) {
      return Contestant{name, !program.empty(), slow, [&, program, column] {
                          return recover(program, recoveries[column], peers);
                        }};
    };
    run_column(table,
               column,
               {under(kMuster, peers.muster, false), under(kTorchrun, peers.torchrun, true)},
               more);
  }
  return table;
}

}  // namespace

std::vector<Table> measure_nodes(const Peers& peers, const Effort& effort) {
  return {form_table(peers, effort), recovery_table(peers, effort)};
}

}  // namespace muster::bench
