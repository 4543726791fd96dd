// SPDX-License-Identifier: Apache-2.0
#include "plan/worker_macros.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

// Local rank 1 on node 1, which has 2 of 5 workers.
Assignment second_node() {
  Assignment a;
  a.group_rank = 1;
  a.group_world_size = 2;
  a.rank_first = 3;
  a.world_size = 5;
  a.local_world_size = 2;
  a.master_addr = "10.0.0.1";
  a.ports = {40001, 40002};
  a.leader_ports = {50001};
  return a;
}

}  // namespace

TEST_CASE("worker macros: ranks, the leader's address, the reserved ports") {
  CHECK(worker_macros({}, second_node(), 1) == Macros{{"local_rank", "1"},
                                                      {"rank", "4"},
                                                      {"node_rank", "1"},
                                                      {"world_size", "5"},
                                                      {"leader_addr", "10.0.0.1"},
                                                      {"port0", "40001"},
                                                      {"port1", "40002"},
                                                      {"leader_port0", "50001"}});
}

TEST_CASE("worker macros: called as torchrun, only the local rank and reserved ports") {
  LaunchConfig config;
  config.personality = Personality::torchrun;
  Assignment a = second_node();
  CHECK(worker_macros(config, a, 1) == Macros{{"local_rank", "1"},
                                              {"leader_addr", "10.0.0.1"},
                                              {"port0", "40001"},
                                              {"port1", "40002"},
                                              {"leader_port0", "50001"}});
  a.ports.clear();
  a.leader_ports.clear();
  CHECK(worker_macros(config, a, 1) == Macros{{"local_rank", "1"}});
}

TEST_CASE("worker macros: no macro for a value that is not known yet") {
  Assignment a = second_node();
  a.master_addr.clear();
  a.ports = {0, 0};
  a.leader_ports = {0};
  const Macros macros = worker_macros({}, a, 0);
  CHECK_FALSE(macros.contains("leader_addr"));
  CHECK_FALSE(macros.contains("port0"));
  CHECK_FALSE(macros.contains("leader_port0"));
}

TEST_CASE("worker macros: with one launcher per worker, the node is the machine") {
  LaunchConfig config;
  config.task.emplace();
  config.task->node = 7;
  config.task->local_rank = 5;
  config.task->has_own_gpu = true;
  const Macros macros = worker_macros(config, second_node(), 0);
  CHECK(macros.at("node_rank") == "7");
  CHECK(macros.at("local_rank") == "5");
}
