// SPDX-License-Identifier: Apache-2.0
// The environment contract, row by row; each name contains the row.
#include "plan/worker_env.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

struct Worker {
  LaunchConfig config{};
  Environ environ{};
  Assignment assignment = assign_alone(2, 0, Endpoint{"127.0.0.1", 4711});
  int local_rank = 1;
  WorkerContact contact{"logs/1/error.json", "muster-agent-0123"};

  Worker() {
    config.nproc = 2;
    config.usable_cpus = 9;
    config.rdzv_id = "job7";
    config.max_restarts = 3;
    config.role = "trainer";
    config.signals_to_handle_text = "SIGTERM,SIGINT";
  }

  [[nodiscard]] Environ env() const {
    const auto out = worker_env(config, environ, assignment, local_rank, contact);
    if (!out) {
      FAIL(out.error().message);
    }
    return *out;
  }

  [[nodiscard]] std::optional<std::string> operator[](std::string_view name) const {
    return env().get(name);
  }
};

// Node 1 of 2, with 2 of 5 workers: ranks 3 and 4, with role ranks 1 and 2.
Worker second_node() {
  Worker worker;
  Assignment& a = worker.assignment;
  a.group_rank = 1;
  a.group_world_size = 2;
  a.rank_first = 3;
  a.world_size = 5;
  a.role_rank_first = 1;
  a.role_world_size = 3;
  return worker;
}

}  // namespace

TEST_CASE("worker env: LOCAL_RANK is the index on the node, 0 with --virtual-local-rank") {
  Worker worker;
  CHECK(worker["LOCAL_RANK"] == "1");
  worker.config.virtual_local_rank = true;
  CHECK(worker["LOCAL_RANK"] == "0");
}

TEST_CASE("worker env: RANK counts over all nodes") {
  CHECK(Worker{}["RANK"] == "1");
  CHECK(second_node()["RANK"] == "4");
}

TEST_CASE("worker env: GROUP_RANK and GROUP_WORLD_SIZE are the node's") {
  CHECK(Worker{}["GROUP_RANK"] == "0");
  CHECK(Worker{}["GROUP_WORLD_SIZE"] == "1");
  CHECK(second_node()["GROUP_RANK"] == "1");
  CHECK(second_node()["GROUP_WORLD_SIZE"] == "2");
}

TEST_CASE("worker env: ROLE_RANK, ROLE_NAME and ROLE_WORLD_SIZE are the role's") {
  CHECK(second_node()["ROLE_RANK"] == "2");
  CHECK(second_node()["ROLE_WORLD_SIZE"] == "3");
  CHECK(second_node()["ROLE_NAME"] == "trainer");
}

TEST_CASE("worker env: LOCAL_WORLD_SIZE and WORLD_SIZE") {
  CHECK(second_node()["LOCAL_WORLD_SIZE"] == "2");
  CHECK(second_node()["WORLD_SIZE"] == "5");
}

TEST_CASE("worker env: MASTER_ADDR and MASTER_PORT are the store's address") {
  CHECK(Worker{}["MASTER_ADDR"] == "127.0.0.1");
  CHECK(Worker{}["MASTER_PORT"] == "4711");
}

TEST_CASE("worker env: TORCHELASTIC_RESTART_COUNT and TORCHELASTIC_MAX_RESTARTS") {
  Worker worker;
  CHECK(worker["TORCHELASTIC_RESTART_COUNT"] == "0");
  worker.assignment.restart_count = 2;
  CHECK(worker["TORCHELASTIC_RESTART_COUNT"] == "2");
  CHECK(worker["TORCHELASTIC_MAX_RESTARTS"] == "3");
}

TEST_CASE("worker env: TORCHELASTIC_RUN_ID is the rendezvous id") {
  CHECK(Worker{}["TORCHELASTIC_RUN_ID"] == "job7");
}

TEST_CASE("worker env: TORCHELASTIC_USE_AGENT_STORE is exactly True") {
  CHECK(Worker{}["TORCHELASTIC_USE_AGENT_STORE"] == "True");
}

TEST_CASE("worker env: TORCHELASTIC_USE_AGENT_STORE is False if rank 0 serves the store") {
  Worker worker;
  worker.assignment.agent_store = false;
  CHECK(worker["TORCHELASTIC_USE_AGENT_STORE"] == "False");
}

TEST_CASE("worker env: MUSTER_EPOCH is the number of the round") {
  Worker worker;
  CHECK(worker["MUSTER_EPOCH"] == "1");
  worker.assignment.epoch = 18'446'744'073'709'551'615U;
  CHECK(worker["MUSTER_EPOCH"] == "18446744073709551615");
}

TEST_CASE("worker env: MUSTER_AGENT is the agent's socket, never an outer launcher's") {
  Worker worker;
  worker.environ.set("MUSTER_AGENT", "muster-agent-outer");
  CHECK(worker["MUSTER_AGENT"] == "muster-agent-0123");
  worker.contact.agent_socket.clear();
  CHECK_FALSE(worker["MUSTER_AGENT"]);
}

TEST_CASE("worker env: MUSTER_PORTS and MUSTER_LEADER_PORTS are the reserved ports") {
  Worker worker;
  CHECK_FALSE(worker["MUSTER_PORTS"]);
  CHECK_FALSE(worker["MUSTER_LEADER_PORTS"]);
  worker.assignment.ports = {40001, 40002};
  worker.assignment.leader_ports = {50001};
  CHECK(worker["MUSTER_PORTS"] == "40001,40002");
  CHECK(worker["MUSTER_LEADER_PORTS"] == "50001");
}

TEST_CASE("worker env: JAX finds the coordinator, its place and its device") {
  Worker worker = second_node();
  worker.environ.set("MUSTER_JAX", "1");  // an outer launcher's
  CHECK_FALSE(worker["JAX_PROCESS_ID"]);
  CHECK_FALSE(worker["MUSTER_JAX"]);
  CHECK_FALSE(node_env(worker.config, worker.environ).get("MUSTER_JAX"));
  worker.config.jax = true;
  worker.assignment.master_addr = "fd00::1";
  set_leader_ports(worker.assignment, {50001, 50002}, true);
  CHECK(worker["JAX_COORDINATOR_ADDRESS"] == "[fd00::1]:50002");
  CHECK(worker["JAX_NUM_PROCESSES"] == "5");
  CHECK(worker["JAX_PROCESS_ID"] == "4");
  CHECK(worker["JAX_LOCAL_DEVICE_IDS"] == "1");
  CHECK(worker["MUSTER_JAX"] == "1");
  CHECK(worker["MUSTER_LEADER_PORTS"] == "50001");
  CHECK(node_env(worker.config, worker.environ).get("MUSTER_JAX") == "1");
}

TEST_CASE("worker env: JAX connects to rank 0's node, not to a proxy of the store") {
  Worker worker;
  worker.config.jax = true;
  worker.assignment.leader_addr = "node1";
  set_leader_ports(worker.assignment, {50001}, true);
  CHECK(worker["JAX_COORDINATOR_ADDRESS"] == "node1:50001");
}

TEST_CASE("worker env: JAX's only worker on a node uses all devices, and the user may choose") {
  Worker worker;
  worker.config.jax = true;
  worker.config.virtual_local_rank = true;
  CHECK(worker["JAX_LOCAL_DEVICE_IDS"] == "0");
  worker.environ.set("JAX_LOCAL_DEVICE_IDS", "2,3");
  CHECK(worker["JAX_LOCAL_DEVICE_IDS"] == "2,3");
  Worker alone;
  alone.config.jax = true;
  alone.assignment = assign_alone(1, 0, Endpoint{"127.0.0.1", 4711});
  alone.local_rank = 0;
  CHECK_FALSE(alone["JAX_LOCAL_DEVICE_IDS"]);
}

TEST_CASE("worker env: TORCH_NCCL_ASYNC_ERROR_HANDLING is 1 unless inherited") {
  Worker worker;
  CHECK(worker["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "1");
  worker.environ.set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0");
  CHECK(worker["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "0");
  CHECK_FALSE(worker["NCCL_ASYNC_ERROR_HANDLING"]);
}

TEST_CASE("worker env: PyTorch's flight recorders get our pipes unless the user has set others") {
  Worker worker;
  CHECK(!worker["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"]);
  CHECK(!worker["MUSTER_TORCH_FLIGHTS"]);
  worker.contact.flights = "/logs/attempt_0";
  CHECK(worker["MUSTER_TORCH_FLIGHTS"] == "/logs/attempt_0/torch_flights_");
  CHECK(worker["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] == "/logs/attempt_0/nccl_pipe_");
  CHECK(worker["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] == "/logs/attempt_0/nccl_trace_rank_");
  worker.environ.set("TORCH_FR_DUMP_TEMP_FILE", "/mine");
  CHECK(worker["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] == "/logs/attempt_0/nccl_pipe_");
  CHECK(!worker["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"]);
  worker.environ.set("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/my_pipe");
  CHECK(worker["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] == "/my_pipe");
}

TEST_CASE("worker env: TORCHELASTIC_ERROR_FILE is the worker's own file") {
  CHECK(Worker{}["TORCHELASTIC_ERROR_FILE"] == "logs/1/error.json");
}

TEST_CASE("worker env: OMP_NUM_THREADS is the worker's share of the CPUs unless inherited") {
  Worker worker;
  CHECK(worker["OMP_NUM_THREADS"] == "4");
  worker.config.usable_cpus = 1;
  CHECK(worker["OMP_NUM_THREADS"] == "1");
  worker.environ.set("OMP_NUM_THREADS", "7");
  CHECK(worker["OMP_NUM_THREADS"] == "7");
}

TEST_CASE("worker env: OMP_NUM_THREADS of a bound worker is its own CPUs, within the quota") {
  Worker worker;
  worker.config.usable_cpus = 12;
  worker.config.numa_plan.cpus = 12;
  worker.config.numa_plan.ranks = {{CpuSet::parse("0-7").value(), {}, 8},
                                   {CpuSet::parse("8-11").value(), {}, 4}};
  CHECK(worker["OMP_NUM_THREADS"] == "4");
  CHECK(node_env(worker.config, worker.environ).get("OMP_NUM_THREADS") == "4");
  worker.local_rank = 0;
  CHECK(worker["OMP_NUM_THREADS"] == "8");
  worker.config.usable_cpus = 6;  // a quota of 6 CPUs for both
  CHECK(worker["OMP_NUM_THREADS"] == "3");
  worker.environ.set("OMP_NUM_THREADS", "7");
  CHECK(worker["OMP_NUM_THREADS"] == "7");
}

TEST_CASE("worker env: OMP_NUM_THREADS as torchrun is 1 for several workers, unchanged for one") {
  for (const auto name : {Personality::torchrun, Personality::torch_distributed_launch}) {
    Worker worker;
    worker.config.personality = name;
    CHECK(worker["OMP_NUM_THREADS"] == "1");
    worker.config.nproc = 1;
    CHECK_FALSE(worker["OMP_NUM_THREADS"]);
    worker.environ.set("OMP_NUM_THREADS", "7");
    CHECK(worker["OMP_NUM_THREADS"] == "7");
  }
}

TEST_CASE("worker env: CUDA_VISIBLE_DEVICES is unchanged without --virtual-local-rank") {
  Worker worker;
  CHECK_FALSE(worker["CUDA_VISIBLE_DEVICES"]);
  worker.environ.set("CUDA_VISIBLE_DEVICES", "4,5");
  CHECK(worker["CUDA_VISIBLE_DEVICES"] == "4,5");
}

TEST_CASE("worker env: CUDA_VISIBLE_DEVICES with --virtual-local-rank is one entry of the list") {
  Worker worker;
  worker.config.virtual_local_rank = true;
  CHECK(worker["CUDA_VISIBLE_DEVICES"] == "1");
  worker.environ.set("CUDA_VISIBLE_DEVICES", "4, GPU-abc");
  CHECK(worker["CUDA_VISIBLE_DEVICES"] == "GPU-abc");
  CHECK_FALSE(worker["HIP_VISIBLE_DEVICES"]);
  for (const char* list : {"4", ""}) {
    worker.environ.set("CUDA_VISIBLE_DEVICES", list);
    const auto out = worker_env(worker.config, worker.environ, worker.assignment, 1, {});
    REQUIRE_FALSE(out);
    CHECK(out.error().code == Errc::usage);
    CHECK(out.error().message.find("local rank 1 has no GPU") != std::string::npos);
  }
}

TEST_CASE("worker env: HIP_VISIBLE_DEVICES is the source if it is set, and both get the entry") {
  Worker worker;
  worker.config.virtual_local_rank = true;
  worker.environ.set("CUDA_VISIBLE_DEVICES", "0,1");
  worker.environ.set("HIP_VISIBLE_DEVICES", "6,7");
  CHECK(worker["HIP_VISIBLE_DEVICES"] == "7");
  CHECK(worker["CUDA_VISIBLE_DEVICES"] == "7");
  worker.environ.set("HIP_VISIBLE_DEVICES", "");
  CHECK(worker["CUDA_VISIBLE_DEVICES"] == "1");
}

TEST_CASE("worker env: TORCHELASTIC_TIMER_FILE is the agent's pipe, else inherited") {
  Worker worker;
  CHECK_FALSE(worker["TORCHELASTIC_TIMER_FILE"]);
  worker.environ.set("TORCHELASTIC_TIMER_FILE", "/tmp/t");
  CHECK(worker["TORCHELASTIC_TIMER_FILE"] == "/tmp/t");
  worker.config.file_timers = true;
  CHECK_FALSE(worker["TORCHELASTIC_TIMER_FILE"]);
  worker.contact.timer_file = "/run/timers";
  CHECK(worker["TORCHELASTIC_TIMER_FILE"] == "/run/timers");
}

TEST_CASE("worker env: TORCHELASTIC_SIGNALS_TO_HANDLE is as typed") {
  CHECK(Worker{}["TORCHELASTIC_SIGNALS_TO_HANDLE"] == "SIGTERM,SIGINT");
}

TEST_CASE("worker env: nothing is taken away and nothing else is added") {
  Worker worker;
  worker.environ.set("HOME", "/home/user");
  worker.environ.set("RANK", "from outside");
  CHECK(worker["HOME"] == "/home/user");
  CHECK(worker["RANK"] == "1");
  CHECK(worker.env().all().size() == 21 + 1);
}

TEST_CASE("worker env: SLURM_PROCID and the like are the worker's own in a step, or unset") {
  Worker worker = second_node();
  const auto place = [&] {
    std::vector<std::string> out;
    for (const char* name : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_LOCALID"}) {
      out.push_back(worker[name].value_or("none"));
    }
    return out;
  };
  for (const char* name :
       {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_LOCALID", "SLURM_GTIDS"}) {
    worker.environ.set(name, "0");
  }
  worker.environ.set("SLURM_NODEID", "1");
  worker.config.platform.name = "slurm";
  worker.config.platform.nodes = {2, "SLURM_STEP_NUM_NODES"};
  CHECK(place() == std::vector<std::string>{"4", "5", "5", "1"});
  CHECK_FALSE(worker["SLURM_GTIDS"]);
  CHECK(worker["SLURM_NODEID"] == "1");
  CHECK_FALSE(node_env(worker.config, worker.environ).get("SLURM_PROCID"));
  worker.config.platform.nodes.reset();  // an allocation without srun
  CHECK(place() == std::vector<std::string>(4, "none"));
  worker.config.task = TaskOfNode{};  // it has its launcher's variables
  CHECK(place() == std::vector<std::string>(4, "0"));
  worker.config.task.reset();
  worker.environ = {};
  worker.config.platform.nodes = {2, "SLURM_STEP_NUM_NODES"};
  CHECK(place() == std::vector<std::string>(4, "none"));
}

TEST_CASE("worker env: gloo uses the interface through which the other nodes reach this one") {
  Worker worker = second_node();
  CHECK_FALSE(worker["GLOO_SOCKET_IFNAME"]);
  worker.assignment.interface = "eth0";
  CHECK(worker["GLOO_SOCKET_IFNAME"] == "eth0");
  CHECK(worker["TP_SOCKET_IFNAME"] == "eth0");
  CHECK_FALSE(worker["NCCL_SOCKET_IFNAME"]);
  worker.config.iface = "eth0";
  CHECK(worker["NCCL_SOCKET_IFNAME"] == "=eth0");
  worker.environ.set("GLOO_SOCKET_IFNAME", "ib0");
  worker.environ.set("NCCL_SOCKET_IFNAME", "ib");
  CHECK(worker["GLOO_SOCKET_IFNAME"] == "ib0");
  CHECK(worker["NCCL_SOCKET_IFNAME"] == "ib");
  worker.environ = {};
  worker.config.socket_ifname = false;
  CHECK_FALSE(worker["GLOO_SOCKET_IFNAME"]);
  CHECK_FALSE(worker["TP_SOCKET_IFNAME"]);
  CHECK_FALSE(worker["NCCL_SOCKET_IFNAME"]);
}
