// SPDX-License-Identifier: Apache-2.0
// --devices, --numa-binding, and the messages if there are too few GPUs.
#include "config/options/explain.hpp"
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

const std::string kRule =
    "must be GPU indices or UUIDs (GPU-..., MIG-...), separated by commas, without duplicates";

std::optional<std::string> variable(const Launch& launch, std::string_view name) {
  return launch.resolved()->environ.get(name);
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// A Slurm step that starts one launcher for each of two workers on this machine.
const Variables kTwoTasks{{"SLURM_JOB_ID", "7"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "1"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "0"},
                          {"SLURM_STEP_NUM_TASKS", "2"},
                          {"SLURM_STEP_NUM_NODES", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2"},
                          {"SLURM_STEP_NODELIST", "node1"},
                          {"SLURM_NTASKS", "2"}};

}  // namespace

TEST_CASE("devices: the list becomes the workers' variable, and counts for gpu and auto") {
  for (const char* nproc : {"--nproc-per-node=gpu", "--nproc-per-node=auto"}) {
    const Launch launch{{"--devices=3,0, 1", nproc}, {}};
    CHECK(launch.config().nproc == 3);
    CHECK(contains(launch.config().shown.at("nproc-per-node"), "3 of --devices"));
    CHECK(launch.config().devices == "3,0,1");
    CHECK(variable(launch, "CUDA_VISIBLE_DEVICES") == "3,0,1");
    CHECK_FALSE(variable(launch, "HIP_VISIBLE_DEVICES"));
  }
  CHECK(config({"--devices=3,0"}).nproc == 1);
}

TEST_CASE("devices: numbers index into the inherited list, UUIDs stay unchanged") {
  const Launch launch{{"--devices=2,0"}, {{"CUDA_VISIBLE_DEVICES", "5, GPU-ab ,MIG-c/1/0"}}};
  CHECK(variable(launch, "CUDA_VISIBLE_DEVICES") == "MIG-c/1/0,5");
  const Launch uuid{{"--devices=GPU-ab"}, {{"CUDA_VISIBLE_DEVICES", "5"}}};
  CHECK(variable(uuid, "CUDA_VISIBLE_DEVICES") == "GPU-ab");
  CHECK(contains(Launch{{"--devices=2"}, {{"CUDA_VISIBLE_DEVICES", "5,6"}}}.error(),
                 "GPU 2 does not exist: 2 GPUs are visible through CUDA_VISIBLE_DEVICES=5,6"));
  CHECK(contains(error({"--devices=4"}), "GPU 4 does not exist: this node has 4, numbered from 0"));
}

TEST_CASE("devices: on AMD it also sets ROCm's own variable") {
  Launch launch{{"--devices=1"}, {{"HIP_VISIBLE_DEVICES", "6,7"}}};
  CHECK(variable(launch, "HIP_VISIBLE_DEVICES") == "7");
  CHECK(variable(launch, "CUDA_VISIBLE_DEVICES") == "7");
  launch.variables.clear();
  CHECK_FALSE(variable(launch, "HIP_VISIBLE_DEVICES"));
  launch.machine.amd = true;
  CHECK(variable(launch, "HIP_VISIBLE_DEVICES") == "1");
}

TEST_CASE("devices: if no GPU is visible the numbers are not checked") {
  Launch launch{{"--devices=9"}, {}};
  launch.machine.gpus = {0, "none seen"};
  CHECK(launch.config().devices == "9");
  CHECK(launch.warnings() == std::vector<std::string>{"--devices=9: none seen"});
}

TEST_CASE("devices: rejects invalid lists") {
  for (const char* typed :
       {"a", "-1", "+1", "0,,1", "", "0,0", "1.5", "GPU-x y", "0-3", "99999999999999999999"}) {
    INFO(typed);
    CHECK(contains(error({std::string("--devices=") + typed}), kRule));
  }
}

TEST_CASE("devices: reports fewer visible GPUs than workers if a variable restricts them") {
  Launch launch{{"--nproc-per-node=4"}, {{"CUDA_VISIBLE_DEVICES", "3"}}};
  launch.machine.gpus = {1, "8 NVIDIA GPUs in /dev, 1 visible by CUDA_VISIBLE_DEVICES"};
  REQUIRE(launch.warnings().size() == 1);
  CHECK(launch.warnings()[0] ==
        "4 workers, but 8 NVIDIA GPUs in /dev, 1 visible by CUDA_VISIBLE_DEVICES: "
        "cuda:LOCAL_RANK does not exist for local rank 1 and above; request more GPUs from the "
        "scheduler, or use --nproc-per-node=gpu");
  launch.machine.gpus.count = 4;
  CHECK(launch.warnings().empty());
  launch.machine.gpus.count = 1;
  launch.variables = {{"OMP_NUM_THREADS", "1"}};
  launch.machine.questions = 0;
  for (const char* list : {"", "0,1,2,3", "GPU-a,GPU-b,GPU-c,GPU-d,GPU-e"}) {
    launch.variables["CUDA_VISIBLE_DEVICES"] = list;
    CHECK(launch.warnings().empty());
  }
  CHECK(launch.machine.questions == 0);
}

TEST_CASE("devices: a worker may have one MIG slice, and no more") {
  Launch launch{{"--nproc-per-node=gpu"}, {{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b,MIG-c"}}};
  launch.machine.gpus = {1, "1 NVIDIA GPU in /dev, 1 visible by CUDA_VISIBLE_DEVICES"};
  CHECK(launch.config().nproc == 1);
  launch.args.emplace_back("--virtual-local-rank");
  CHECK(launch.config().nproc == 3);
  CHECK(launch.warnings().empty());
  launch.args = {"--nproc-per-node=3"};
  REQUIRE(launch.warnings().size() == 1);
  CHECK(launch.warnings()[0].ends_with("can use only one MIG slice; use --virtual-local-rank"));
}

TEST_CASE("devices: lists the existing slices, one per worker") {
  Launch launch{{"--nproc-per-node=gpu", "--virtual-local-rank"}, {}};
  launch.machine.gpus = {1, "2 NVIDIA GPUs in /dev"};
  launch.machine.slices = {3, {"MIG-a", "MIG-b", "MIG-c"}};
  CHECK(launch.config().nproc == 3);
  CHECK(launch.resolved()->environ.get("CUDA_VISIBLE_DEVICES") == "MIG-a,MIG-b,MIG-c");
  launch.machine.slices.names.clear();
  CHECK(contains(launch.error(), "names of the 3 MIG slices: nvidia-smi"));
  launch.variables["CUDA_VISIBLE_DEVICES"] = "MIG-x,MIG-y";
  CHECK(launch.config().nproc == 2);
}

TEST_CASE("numa: passes the policy and the workers to the machine, and keeps its plan") {
  Launch launch{{"--numa-binding=core-complex", "--nproc-per-node=2"}, {}};
  launch.machine.numa = NumaPlan{{{CpuSet::parse("0-3").value(), CpuSet::parse("0").value(), 4},
                                  {CpuSet::parse("4-7").value(), {}, 4}},
                                 8,
                                 "by the NUMA nodes of 2 GPUs"};
  CHECK(launch.config().numa_plan == *launch.machine.numa);
  CHECK(launch.machine.asked.policy == NumaPolicy::core_complex);
  CHECK(launch.machine.asked.ranks == 2);
  const std::string text = describe_config(launch.config(), Explained::changed);
  CHECK(contains(text, "core-complex (by the NUMA nodes of 2 GPUs)"));
  CHECK(contains(text, "local rank 0"));
  CHECK(contains(text, "cpus 0-3"));
  CHECK(contains(text, "memory of node 0"));
  CHECK(contains(text, "kernel default memory policy"));
}

TEST_CASE("numa: none is the default and queries nothing") {
  Launch launch{{}, {{"OMP_NUM_THREADS", "1"}}};
  CHECK(launch.config().numa_plan == NumaPlan{});
  CHECK(launch.config().shown.at("numa-binding") == "none");
  CHECK(launch.machine.questions == 0);
}

TEST_CASE("numa: an impossible policy is an error that names the option") {
  Launch launch{{"--numa-binding=node"}, {}};
  launch.machine.numa = failure(Errc::usage, "no NUMA node");
  CHECK(launch.error() == "--numa-binding=node: no NUMA node");
  CHECK(contains(error({"--numa-binding=bad"}),
                 "must be one of node, socket, exclusive, core-complex, none, auto"));
}

TEST_CASE("numa: with one launcher per worker, the launcher's parent decides") {
  const Launch launch{{"--numa-binding=node"}, kTwoTasks};
  CHECK(contains(launch.error(), "started one launcher per worker, and each sees only its own"));
  const LaunchConfig left = Launch{{"--numa-binding=auto"}, kTwoTasks}.config();
  CHECK(left.numa_plan.ranks.empty());
  CHECK(contains(left.numa_plan.reason, "binds its tasks"));
}
