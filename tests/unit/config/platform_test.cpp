// SPDX-License-Identifier: Apache-2.0
// The platform's settings against the user's: precedence, conflicts, rejections. The golden tests
// cover each platform's settings.
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Variables step(int node, int nodes, const std::string& tasks = "1") {
  const std::string count = std::to_string(nodes);
  return {{"SLURM_JOB_ID", "7"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_NODEID", std::to_string(node)},
          {"SLURM_PROCID", std::to_string(node)},
          {"SLURM_LOCALID", "0"},
          {"SLURM_STEP_NODELIST", "a[1-" + count + "]"},
          {"SLURM_STEP_NUM_NODES", count},
          {"SLURM_STEP_TASKS_PER_NODE", tasks + "(x" + count + ")"}};
}

Launch launch(std::vector<std::string> args, Variables variables) {
  Launch out{std::move(args), std::move(variables)};
  out.machine.gpus = {0, "no GPU"};
  return out;
}

const Variables kCloud{
    {"MASTER_ADDR", "head"}, {"MASTER_PORT", "2222"}, {"WORLD_SIZE", "2"}, {"RANK", "1"}};

}  // namespace

TEST_CASE("platform: variables, files and the command line override it, in this order") {
  auto variables = step(1, 4);
  CHECK(launch({}, variables).config().nodes_max == 4);
  variables["PET_NNODES"] = "1:4";
  CHECK(launch({}, variables).config().nodes_min == 1);
  variables["MUSTER_NNODES"] = "2:4";
  CHECK(launch({}, variables).config().nodes_min == 2);
  CHECK(launch({"--nnodes=3:4"}, variables).config().nodes_min == 3);
  auto file = launch({"--config=job.toml"}, step(1, 4));
  file.machine.texts["job.toml"] = "nnodes = \"1:4\"\n";
  CHECK(file.config().nodes_min == 1);
}

TEST_CASE("platform: one line names the settings that contradict it") {
  const auto out = launch({"--nnodes=2", "--node-rank=1"}, step(3, 4)).resolved();
  REQUIRE(out);
  CHECK(out->warnings ==
        std::vector<std::string>{
            "Slurm step 7.0: --nnodes=2 (command line) overrides 4 (SLURM_STEP_NUM_NODES); "
            "--node-rank=1 (command line) overrides 3 (SLURM_NODEID)"});
  CHECK(out->config.nodes_max == 2);
  CHECK(out->config.node_rank == 1);
  CHECK(launch({"--nnodes=1:8", "--rdzv-id=mine"}, step(3, 4)).warnings().empty());
}

TEST_CASE("platform: its hosts limit which nodes may join, unless the user chose another network") {
  auto variables = step(1, 2);
  variables["SLURM_NODE_ALIASES"] = "a2:10.0.0.2:a2";
  const auto named = launch({}, variables).config().named_hosts;
  REQUIRE(named);
  CHECK(named->value == std::vector<std::string>{"a1", "10.0.0.2"});
  CHECK(named->origin == "SLURM_STEP_NODELIST");
  for (const char* other : {"--rdzv-endpoint=head:1", "--local-addr=10.0.0.1", "--nnodes=2:8"}) {
    CHECK_FALSE(launch({other}, variables).config().named_hosts);
  }
  CHECK_FALSE(launch({}, kCloud).config().named_hosts);
}

TEST_CASE("platform: a node beyond --nnodes has no rank and waits as a spare") {
  const auto config = launch({"--nnodes=2"}, step(3, 4)).config();
  CHECK_FALSE(config.node_rank);
}

TEST_CASE("platform: several launchers never form separate single-node jobs") {
  for (const std::string typed : {"--nnodes=1", "--standalone"}) {
    const std::string why = launch({typed}, step(1, 4)).error();
    CHECK(why.find("Slurm step 7.0 started muster 4 times (SLURM_STEP_NUM_NODES)") !=
          std::string::npos);
    CHECK(why.find("--platform=none") != std::string::npos);
    CHECK(launch({typed, "--platform=none"}, step(1, 4)).config().nodes_max == 1);
  }
  CHECK(launch({}, step(0, 1)).config().standalone);
}

TEST_CASE("platform: a hint gives way to a request for one machine, and is named") {
  const auto out = launch({"--standalone"}, kCloud).resolved();
  REQUIRE(out);
  CHECK(out->config.standalone);
  CHECK(out->warnings == std::vector<std::string>{"--standalone requests one node; ignoring "
                                                  "MASTER_ADDR and WORLD_SIZE (2 nodes)"});
}

TEST_CASE("platform: a rendezvous endpoint from the user replaces the platform's completely") {
  const auto config = launch({"--master-addr=x", "--master-port=5"}, step(1, 2)).config();
  CHECK(config.rdzv_backend == "static");
  CHECK(config.rdzv_endpoints == std::vector{Endpoint{"x", 5}});
  CHECK(config.node_rank == 1);
  CHECK_FALSE(config.rendezvous.is_host);
  const auto c10d = launch({"--rdzv-backend=c10d", "--rdzv-endpoint=x"}, step(0, 2)).config();
  CHECK(c10d.rdzv_endpoints == std::vector{Endpoint{"x", 29400}});
  CHECK_FALSE(c10d.rendezvous.is_host);
  CHECK(c10d.rdzv_id == "slurm-7.0");
}

TEST_CASE("platform: the first node hosts at a free candidate, the others try all of them") {
  const auto follower = launch({}, step(1, 2)).config();
  REQUIRE(follower.rdzv_endpoints.size() == 8);
  CHECK(follower.rendezvous.is_host == false);
  auto first = launch({}, step(0, 2));
  CHECK(first.config().rdzv_endpoints == std::vector{follower.rdzv_endpoints[0]});
  CHECK(first.config().rendezvous.is_host == true);
  first.machine.taken_ports = {*follower.rdzv_endpoints[0].port, *follower.rdzv_endpoints[1].port};
  CHECK(first.config().rdzv_endpoints == std::vector{follower.rdzv_endpoints[2]});
}

TEST_CASE("platform: the platform's node numbers are unique, the user's need not be") {
  CHECK(launch({}, step(1, 2)).config().nodes_are_numbered);
  CHECK_FALSE(launch({"--node-rank=0"}, step(1, 2)).config().nodes_are_numbered);
  CHECK_FALSE(launch({"--platform=none"}, step(1, 2)).config().nodes_are_numbered);
  CHECK_FALSE(launch({}, kCloud).config().nodes_are_numbered);
}

TEST_CASE("platform: a rank order replaces the platform's node ranks") {
  for (const Variables& variables : {step(1, 2), kCloud}) {
    auto ordered = launch({"--rank-order=file:order"}, variables);
    ordered.machine.texts["order"] = "a2\na1\n";
    const auto config = ordered.config();
    CHECK(config.rank_order == std::vector<std::string>{"a2", "a1"});
    CHECK(config.rdzv_backend == "c10d");
    CHECK_FALSE(config.node_rank);
    CHECK_FALSE(config.nodes_are_numbered);
    CHECK(config.rendezvous.is_host == false);
    ordered.args.emplace_back("--node-rank=1");
    CHECK(ordered.error().find("use only one of them") != std::string::npos);
  }
  auto tasks = launch({"--rank-order=file:order"}, step(1, 2, "2"));
  tasks.machine.texts["order"] = "a2\na1\n";
  CHECK(tasks.error().find("started one launcher per worker") != std::string::npos);
}

TEST_CASE(
    "platform: an endpoint that is typed alone implies c10d, with the platform's node ranks") {
  const auto config = launch({"--rdzv-endpoint=a1"}, step(1, 2)).config();
  CHECK(config.rdzv_backend == "c10d");
  CHECK(config.node_rank == 1);
}

TEST_CASE("platform: an index that may not be unique in a JobSet is not a node rank") {
  Variables pod{{"KUBERNETES_SERVICE_HOST", "10.3.0.1"},
                {"JOB_COMPLETION_INDEX", "1"},
                {"JOBSET_NAME", "js"}};
  Launch set = launch({"--nnodes=3"}, pod);
  set.machine.name = "js-workers-1-1";
  CHECK_FALSE(set.config().node_rank);
  CHECK_FALSE(set.config().nodes_are_numbered);
  set.args.emplace_back("--node-rank=2");
  CHECK(set.warnings().empty());
}

TEST_CASE("platform: candidates stay within --port-range") {
  for (const Endpoint& endpoint :
       launch({"--port-range=500-520"}, step(1, 2)).config().rdzv_endpoints) {
    CHECK(*endpoint.port >= 500);
    CHECK(*endpoint.port <= 520);
  }
}

TEST_CASE("platform: one worker per GPU, unless a number or torchrun's rules are requested") {
  auto variables = step(1, 2);
  variables["SLURM_GPUS_ON_NODE"] = "2";
  CHECK(launch({}, variables).config().nproc == 2);
  CHECK(launch({"--nproc-per-node=3"}, variables).config().nproc == 3);
  auto as_torchrun = launch({}, variables);
  as_torchrun.personality = Personality::torchrun;
  CHECK(as_torchrun.config().nproc == 1);
  auto fewer = launch({}, variables);
  fewer.machine.gpus = {1, "1 of CUDA_VISIBLE_DEVICES"};
  CHECK(fewer.config().nproc == 1);
  CHECK(fewer.warnings().size() == 1);
  auto no_platform = launch({}, {});
  no_platform.machine.gpus = {4, "4 GPUs"};
  CHECK(no_platform.config().nproc == 1);
}

TEST_CASE("platform: adopts one task per worker, which determines everything else") {
  const auto variables = step(1, 2, "2");
  const auto config = launch({}, variables).config();
  CHECK(config.nodes_max == 4);
  CHECK(config.node_rank == 2);
  CHECK(config.nproc == 1);
  CHECK(config.task == TaskOfNode{0, 2, 1, 2, false});
  CHECK(launch({"--nproc-per-node=2"}, variables).error().find("--ntasks-per-node=1") !=
        std::string::npos);
  CHECK(launch({"--nnodes=2"}, variables).error().find("started 4 launchers") != std::string::npos);
  CHECK(launch({"--nnodes=4", "--nproc-per-node=1"}, variables).config().task);
}

TEST_CASE("platform: one launcher per worker shares the CPUs unless it is bound") {
  Variables variables = step(1, 2, "2");
  Launch tasks = launch({"--explain"}, variables);
  tasks.machine.cpus = {8, "8 CPUs by affinity"};
  CHECK(tasks.config().usable_cpus == 8);
  tasks.variables["SLURM_CPUS_ON_NODE"] = "8";
  CHECK(tasks.config().usable_cpus == 4);
  CHECK(tasks.config().usable_cpus_reason == "8 CPUs by affinity, shared by 2 launchers");
  tasks.variables["SLURM_CPUS_ON_NODE"] = "16";
  CHECK(tasks.config().usable_cpus == 8);
  tasks.machine.own_cpus = false;
  CHECK(tasks.config().usable_cpus == 4);
  tasks.machine.cpus.count = 1;
  CHECK(tasks.config().usable_cpus == 1);
  Launch alone = launch({"--explain"}, step(1, 2));
  alone.machine.cpus = {8, "8 CPUs by affinity"};
  alone.machine.own_cpus = false;
  CHECK(alone.config().usable_cpus == 8);
}

TEST_CASE("platform: an empty run id is the same on all nodes") {
  Launch empty = launch({"--rdzv-id="}, step(1, 2));
  CHECK(empty.config().rdzv_id == "slurm-7.0");
  CHECK(empty.warnings() ==
        std::vector<std::string>{"--rdzv-id is empty; using 'slurm-7.0' on all nodes"});
  Launch plain =
      launch({"--rdzv-id=", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=a"}, {});
  CHECK(plain.config().rdzv_id == "none");
  CHECK(launch({"--rdzv-id=", "--master-port=7"}, {}).config().rdzv_id.size() == 32);
}

TEST_CASE("platform: a job outside of a step needs srun, or a request for one machine") {
  const Variables job{{"SLURM_JOB_ID", "7"},
                      {"SLURM_JOB_NUM_NODES", "2"},
                      {"SLURM_JOB_NODELIST", "a[1-2]"},
                      {"SLURM_CPUS_PER_TASK", "6"}};
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{},
        {"--nnodes=2"},
        {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=a1"}}) {
    const std::string why = launch(args, job).error();
    CHECK(why.find("; run: srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=6 "
                   "--kill-on-bad-exit=0 /usr/bin/muster ") != std::string::npos);
    CHECK(why.find(" train.py") != std::string::npos);
  }
  CHECK(launch({"--nnodes=1"}, job).config().nodes_max == 1);
  CHECK(launch({"--platform=none"}, job).config().nodes_max == 1);
}

TEST_CASE("platform: --as-node is only for explanations") {
  CHECK(launch({"--as-node=1"}, step(0, 4)).error().find("only with --explain") !=
        std::string::npos);
  const auto config = launch({"--explain", "--as-node=3"}, step(0, 4)).config();
  CHECK(config.node_rank == 3);
  CHECK(config.rendezvous.is_host == false);
  CHECK(launch({"--explain", "--as-node=4"}, step(0, 4)).error() ==
        "--as-node=4: the job has 4 nodes, numbered from 0");
}

TEST_CASE("platform: names the shortage if several workers are bound to fewer CPUs") {
  const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  auto bound = launch({"--nproc-per-node=2"}, mpirun);
  bound.machine.cpus = {1, "1 CPU by affinity"};
  const auto warnings = bound.warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().starts_with("2 workers share 1 CPU by affinity: "));
  bound.machine.own_cpus = false;  // a small machine is not a mistake
  CHECK(bound.warnings().empty());
  bound.machine.own_cpus = true;
  bound.args = {"--nproc-per-node=1"};
  CHECK(bound.warnings().empty());
}
