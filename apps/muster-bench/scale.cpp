// SPDX-License-Identifier: Apache-2.0
// The rendezvous of ever more nodes, simulated: what forming and regrouping cost each of them. The
// cores are the real ones; muster-sim (tests/sim) plays the network.
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/scratch.hpp"
#include "base/fd.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include <fcntl.h>

namespace muster::bench {
namespace {

constexpr int kPatienceMs = 120'000;
constexpr double kMicroseconds = 1000;

// "key=number" words of the simulator's line.
std::map<std::string, double> figures_in(const std::string& file) {
  std::map<std::string, double> figures;
  std::ifstream text(file);
  for (std::string word; text >> word;) {
    const auto equals = word.find('=');
    if (equals != std::string::npos) {
      figures[word.substr(0, equals)] = std::strtod(word.c_str() + equals + 1, nullptr);
    }
  }
  return figures;
}

std::map<std::string, double> simulate(const Peers& peers, const std::string& nodes) {
  const Scratch scratch;
  const auto file = scratch.path("out");
  const UniqueFd out(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  auto child =
      Child::start({{peers.simulator, "--nodes", nodes, "--scale"}, peers.environ, out.get()});
  if (!child || child->wait(kPatienceMs) != 0) {
    return {};
  }
  return figures_in(file);
}

}  // namespace

std::vector<Table> measure_scale(const Peers& peers, const Effort& effort) {
  auto messages = Table::of("scale-messages",
                            "Simulated nodes: messages for each of N nodes",
                            "messages",
                            {"64", "256", "1024", "4096", "16384"});
  auto work = Table::of(
      "scale-work", "Simulated nodes: processor time for each of N nodes", "us", messages.columns);
  work.note = "All nodes and the network in one process; the coordinator is one of them.";
  fmt::print(stderr, "  {}\n", messages.title);
  for (const std::string what : {"form", "regroup"}) {
    messages.add_row(what);
    work.add_row(what);
  }
  for (std::size_t column = 0; column < messages.columns.size(); ++column) {
    const double nodes = std::strtod(messages.columns[column].c_str(), nullptr);
    for (int round = 0; round < effort.slow_rounds; ++round) {
      auto figures = simulate(peers, messages.columns[column]);
      for (std::size_t row = 0; row < messages.rows.size(); ++row) {
        const auto name = messages.rows[row].name;
        auto& sent = messages.rows[row].cells[column];
        auto& spent = work.rows[row].cells[column];
        if (figures.empty()) {
          sent.missing = spent.missing = peers.simulator.empty() ? "not installed" : "failed";
          continue;
        }
        sent.samples.push_back(figures[name + "_messages_per_node"]);
        spent.samples.push_back(figures[name + "_cpu_ms"] * kMicroseconds / nodes);
      }
    }
  }
  return {messages, work};
}

}  // namespace muster::bench
