// SPDX-License-Identifier: Apache-2.0
// What --explain can print about a multi-node round before it is formed.
#include "plan/explain.hpp"

#include "plan/process_specs.hpp"
#include "support/catch.hpp"

using namespace muster;

namespace {

LaunchConfig many(const std::string& backend) {
  LaunchConfig config;
  config.nodes_min = 2;
  config.nodes_max = 4;
  config.nproc = 2;
  config.rdzv_backend = backend;
  config.master_addr = "";
  config.program = {ProgramKind::executable, "", "./solver", {}};
  return config;
}

Assignment example(const LaunchConfig& config) {
  const auto out = example_assignment(config);
  if (!out) {
    FAIL(out.error().message);
  }
  return *out;
}

}  // namespace

TEST_CASE("explain: the example of several nodes is the first of MAX equal nodes") {
  const LaunchConfig config = many("c10d");
  const Assignment a = example(config);
  CHECK(a.group_rank == 0);
  CHECK(a.group_world_size == 4);
  CHECK(a.world_size == 8);
  CHECK(describe_example(config, a) ==
        "# example for group rank 0 of 4 nodes with 2 workers each; the rendezvous determines "
        "the ranks and the number of nodes\n");
}

TEST_CASE("explain: a given node rank is that of the example") {
  LaunchConfig config = many("c10d");
  config.node_rank = 3;
  CHECK(example(config).rank_first == 6);
  CHECK(describe_example(config, example(config))
            .starts_with("# example for group rank 3 of 4 nodes"));
  config = many("static");
  config.node_rank = 1;
  CHECK(describe_example(config, example(config)).find("different numbers of workers") !=
        std::string::npos);
}

TEST_CASE("explain: the reason why the program cannot be started precedes the plan") {
  LaunchConfig config;
  config.program.problem = "the script x.py does not exist";
  const std::string said = "# cannot be started: the script x.py does not exist\n";
  CHECK(describe_example(config, example(config)) == said);
  config = many("c10d");
  config.program.problem = "the script x.py does not exist";
  CHECK(describe_example(config, example(config)).starts_with(said + "# example for group rank 0"));
}

TEST_CASE("explain: a single node is not an example") {
  LaunchConfig config;
  config.nproc = 3;
  const Assignment a = example(config);
  CHECK(a == assign_alone(3, 0, Endpoint{"127.0.0.1", 0}));
  CHECK(describe_example(config, a).empty());
}

TEST_CASE("explain: an address that is not known yet is shown as unknown") {
  const LaunchConfig config = many("c10d");
  const auto specs = process_specs(config, {}, example(config), {"logs/run", "node1", false});
  REQUIRE(specs);
  const std::string text = describe_env(*specs, {});
  CHECK(
      text.find("\nMASTER_ADDR=<address of the node with rank 0>\nMASTER_PORT=<any free port>\n") !=
      std::string::npos);
  CHECK(text.find("\nWORLD_SIZE=8\n") != std::string::npos);
}

TEST_CASE("explain: shows the network interface that the workers get") {
  LaunchConfig config = many("c10d");
  const auto text = [&] {
    const auto specs = process_specs(config, {}, example(config), {"logs/run", "node1", false});
    REQUIRE(specs);
    return "\n" + describe_env(*specs, {});
  };
  CHECK(text().contains("\nGLOO_SOCKET_IFNAME=<interface through which other nodes reach this"));
  CHECK_FALSE(text().contains("NCCL_SOCKET_IFNAME"));
  config.iface = "eth0";
  CHECK(text().contains("\nGLOO_SOCKET_IFNAME=eth0\n"));
  CHECK(text().contains("\nNCCL_SOCKET_IFNAME==eth0\n"));
  config.socket_ifname = false;
  CHECK_FALSE(text().contains("SOCKET_IFNAME"));
}

TEST_CASE("explain: reserved ports are chosen at the start, and their macros stay unexpanded") {
  LaunchConfig config = many("c10d");
  config.ports = 2;
  config.leader_ports = 1;
  config.program.args = {"${port1}", "${leader_port0}", "${rank}"};
  CHECK(describe_example(config, example(config))
            .starts_with("# reserved ports are chosen at startup; their macros are not expanded "
                         "here\n# example for group rank 0"));
  const auto specs = process_specs(config, {}, example(config), {"logs/run", "node1", false});
  REQUIRE(specs);
  CHECK(specs->at(1).argv ==
        std::vector<std::string>{"./solver", "${port1}", "${leader_port0}", "1"});
  const std::string text = describe_env(*specs, {});
  CHECK(text.find("\nMUSTER_PORTS=<2 reserved on this node>\n") != std::string::npos);
  CHECK(text.find("\nMUSTER_LEADER_PORTS=<1 reserved on the node with rank 0>\n") !=
        std::string::npos);
  CHECK_FALSE(text.contains("JAX"));
  config.jax = true;
  CHECK(describe_env(*process_specs(config, {}, example(config), {"logs/run", "node1", false}), {})
            .contains("\nJAX_COORDINATOR_ADDRESS=<address of the node with rank 0, and a port "
                      "reserved there>\n"));
}
