// SPDX-License-Identifier: Apache-2.0
#include "config/options/explain.hpp"
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

std::string refusal(std::vector<std::string> args, std::vector<std::string> program) {
  Launch launch{std::move(args), {}};
  launch.program = std::move(program);
  launch.machine.kinds["./solver"] = FileKind::executable;
  return launch.error();
}

}  // namespace

TEST_CASE("ports: none are reserved by default") {
  CHECK(config({}).ports == 0);
  CHECK(config({}).leader_ports == 0);
  CHECK(config({"--ports=2", "--leader-ports=3"}).ports == 2);
  CHECK(config({"--leader_ports", "256"}).leader_ports == 256);
}

TEST_CASE("ports: the count has a limit") {
  CHECK(error({"--ports=257"}) == "--ports=257: must be from 0 to 256");
  CHECK(error({"--leader-ports=-1"}) == "--leader-ports=-1: must be from 0 to 256");
  CHECK(error({"--ports=x"}) == "--ports=x: must be a whole number");
}

TEST_CASE("ports: variables with these names are for the workers, not for muster") {
  const Launch inner{{}, {{"MUSTER_PORTS", "40001,40002"}, {"MUSTER_LEADER_PORTS", "50001"}}};
  CHECK(inner.config().ports == 0);
  CHECK(inner.config().leader_ports == 0);
  CHECK(inner.warnings().empty());
}

TEST_CASE("ports: a range must be large enough for them and the store's port") {
  CHECK(config({"--port-range=30000-30003", "--ports=2", "--leader-ports=1"}).ports == 2);
  CHECK(error({"--port-range=30000-30002", "--ports=2", "--leader-ports=1"}) ==
        "--port-range=30000-30002: has 3 ports, but 4 are needed for listening sockets and "
        "reserved ports");
  CHECK(describe_config(config({"--port-range=30000-30003"}), Explained::all)
            .find("any free port in 30000-30003") != std::string::npos);
  CHECK(error({"--port-range=7000-7004",
               "--ports=2",
               "--leader-ports=1",
               "--nnodes=2",
               "--rdzv-backend=c10d",
               "--rdzv-endpoint=head:7000"})
            .ends_with("has 5 ports, but 6 are needed for listening sockets and reserved ports"));
}

TEST_CASE("ports: rejects a macro beyond the last port, keeps it if no port is reserved") {
  CHECK(refusal({"--ports=2"}, {"./solver", "a", "x${port0}${port1}:${port2}"}) ==
        "--ports=2: the arguments use ${port2}, but the last reserved port is ${port1}");
  CHECK(refusal({"--leader-ports=1"}, {"./solver", "${leader_port18446744073709551616}"}) ==
        "no error");
  CHECK(refusal({"--leader-ports=1"}, {"./solver", "${leader_port1}"}) ==
        "--leader-ports=1: the arguments use ${leader_port1}, but the last reserved port is "
        "${leader_port0}");
  Launch shell{{}, {}};
  shell.program = {"./solver", "echo ${port9}"};
  shell.machine.kinds["./solver"] = FileKind::executable;
  CHECK(shell.config().program.args.front() == "echo ${port9}");
}

TEST_CASE("ports: decides which process serves the store, like torchrun") {
  using Variables = std::map<std::string, std::string, std::less<>>;
  const Variables off{{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}};
  CHECK(config({}).agent_store);
  CHECK_FALSE(Launch{{}, off}.config().agent_store);
  CHECK_FALSE(Launch{{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=head"}, off}
                  .config()
                  .agent_store);
  CHECK(Launch{{"--master-port=7"}, off}.config().agent_store);
  CHECK(Launch{{"--restart=rank", "--max-restarts=1"}, off}.error() ==
        "--restart=rank: needs the store that muster serves; unset "
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
  for (const char* other : {"0", "true", ""}) {
    CHECK(Launch{{}, {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", other}}}.config().agent_store);
  }
}
