// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/load.hpp"
#include "apps/muster-bench/series.hpp"
#include "apps/muster-bench/servers.hpp"
#include "apps/muster-bench/storm.hpp"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <string>

namespace muster::bench {
namespace {

constexpr int kServerCpu = 0;
constexpr int kClientCpu = 1;
constexpr std::size_t kIdle = 4'000;
constexpr std::size_t kDepth = 64;
constexpr std::size_t kDeepClients = 8;
constexpr std::size_t kStreamed = 1'000'000;  // SETs in one sample

using Samples = Result<std::vector<double>>;
using Probe = std::function<Result<double>(const Server&)>;

// One contestant for each server; absent servers keep their rows.
std::vector<Contestant> contest(const std::vector<Server>& servers, const Probe& probe) {
  std::vector<Contestant> contestants;
  contestants.reserve(servers.size());
  for (const auto& server : servers) {
    contestants.push_back(
        {server.name, server.missing != "not installed", false, [&server, probe]() -> Samples {
           if (!server.child) {
             return failure(Errc::unreachable, "the server did not start");
           }
           const auto value = probe(server);
           return value ? Samples(std::vector<double>{*value}) : std::unexpected(value.error());
         }});
  }
  return contestants;
}

LoadPlan plan_of(const Server& server,
                 Operation operation,
                 std::size_t clients,
                 const Effort& effort) {
  LoadPlan plan{server.port, server.protocol, operation, clients, 1, {}, {}};
  plan.warm_up = std::chrono::milliseconds(50);
  plan.measured =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(effort.seconds));
  return plan;
}

// Pinned: server and client have a cpu each.
Table rate_table(const std::vector<Server>& servers,
                 Operation operation,
                 const Effort& effort,
                 bool pinned) {
  auto table = Table::of(
      fmt::format("store-{}{}", name_of(operation), pinned ? "" : "-unpinned"),
      fmt::format("Store: {}{}", name_of(operation), pinned ? "" : ", nothing pinned to a cpu"),
      "requests/s by N clients, one request in flight each",
      {"1", "8", "32", "128"});
  table.note = pinned ? "Server on cpu 0, clients on cpu 1." : "Server and clients run anywhere.";
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const auto clients = static_cast<std::size_t>(std::stoul(table.columns[column]));
    run_column(table,
               column,
               contest(servers,
                       [operation, clients, &effort](const Server& server) {
                         return measure_rate(plan_of(server, operation, clients, effort));
                       }),
               effort);
  }
  if (operation == Operation::set) {
    table.note += " A SET has no answer in TCPStore's protocol: there it is SET and CHECK.";
  }
  return table;
}

Table idle_table(const std::vector<Server>& servers, const Effort& effort) {
  auto table = Table::of("store-idle",
                         "Store: get, beside 4,000 idle connections",
                         "requests/s by N clients, one request in flight each",
                         {"8", "32"});
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const auto clients = static_cast<std::size_t>(std::stoul(table.columns[column]));
    run_column(table,
               column,
               contest(servers,
                       [clients, &effort](const Server& server) -> Result<double> {
                         const auto idle = open_idle({server.port, server.protocol, kIdle});
                         if (!idle) {
                           return std::unexpected(idle.error());
                         }
                         return measure_rate(plan_of(server, Operation::get, clients, effort));
                       }),
               effort);
  }
  return table;
}

Result<double> stream_to(const Server& server, std::size_t clients) {
  if (server.protocol == Protocol::echo) {
    return failure(Errc::usage, "the bare echo has no stream");
  }
  return measure_stream({server.port, server.protocol, clients, kStreamed / clients});
}

Table deep_table(const std::vector<Server>& servers, const Effort& effort) {
  auto table = Table::of("store-deep",
                         "Store: many requests in flight",
                         "requests/s",
                         {"get 8 × 64", "SET stream × 1", "SET stream × 8"});
  table.note =
      "get: 8 clients, 64 requests in each piece. SET stream: nobody waits for an answer "
      "until the last one (redis answers each).";
  run_column(table,
             0,
             contest(servers,
                     [&effort](const Server& server) {
                       auto plan = plan_of(server, Operation::get, kDeepClients, effort);
                       plan.depth = kDepth;
                       return measure_rate(plan);
                     }),
             effort);
  for (const std::size_t column : {1UL, 2UL}) {
    auto contestants = contest(servers, [column](const Server& server) {
      return stream_to(server, column == 1 ? 1 : kDeepClients);
    });
    std::erase_if(contestants, [&](const Contestant& each) {
      return each.row == servers.back().name;  // the echo understands no SET
    });
    run_column(table, column, contestants, effort);
  }
  return table;
}

Table storm_table(const std::vector<Server>& servers, const Effort& effort) {
  auto table =
      Table::of("storm",
                "Store: many clients at once connect, set and get",
                "ms",
                {fmt::format("{},{:03} clients", effort.storm / 1000, effort.storm % 1000)});
  table.note = fmt::format("At most {} connects are under way at once.", kStormPace);
  run_column(table,
             0,
             contest(servers,
                     [&effort](const Server& server) -> Result<double> {
                       const auto storm = raise_storm({server.port, server.protocol, effort.storm});
                       if (!storm) {
                         return std::unexpected(storm.error());
                       }
                       return std::chrono::duration<double, std::milli>(storm->whole).count();
                     }),
             effort);
  return table;
}

// Fresh servers are asked once: what a server has freed, it may keep for the next connections.
Table storm_memory_table(const std::vector<Server>& servers, const Effort& effort) {
  auto table =
      Table::of("storm-memory", "Server memory of an idle connection", "bytes", {"bytes each"});
  table.note = fmt::format(
      "Growth of the server's resident memory with {} greeted connections (user space only).",
      effort.storm);
  auto once = effort;
  once.rounds = 1;
  once.repeats = 0;  // other programs do not change it
  run_column(table,
             0,
             contest(servers,
                     [&effort](const Server& server) -> Result<double> {
                       const double before = server.memory();
                       const auto idle = open_idle({server.port, server.protocol, effort.storm});
                       if (!idle) {
                         return std::unexpected(idle.error());
                       }
                       return (server.memory() - before) / static_cast<double>(effort.storm);
                     }),
             once);
  return table;
}

}  // namespace

std::vector<Table> measure_store(const Peers& peers, const Effort& effort) {
  const Scratch scratch;
  std::vector<Table> tables;
  {
    const auto servers = start_servers(peers, scratch, kServerCpu);
    pin_to(kClientCpu);
    tables.push_back(storm_memory_table(servers, effort));
    tables.push_back(storm_table(servers, effort));
    for (const auto operation : {Operation::get, Operation::set, Operation::add}) {
      tables.push_back(rate_table(servers, operation, effort, true));
    }
    tables.push_back(idle_table(servers, effort));
    tables.push_back(deep_table(servers, effort));
    pin_to(-1);
  }
  const auto servers = start_servers(peers, scratch, -1);
  tables.push_back(rate_table(servers, Operation::get, effort, false));
  return tables;
}

}  // namespace muster::bench
