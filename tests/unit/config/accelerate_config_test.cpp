// SPDX-License-Identifier: Apache-2.0
#include "config/files/accelerate_config.hpp"

#include "support/catch.hpp"
#include "unit/config/launch.hpp"

#include <random>

using namespace muster;

namespace {

AccelerateConfig parsed(const std::string& text) {
  const auto out = parse_accelerate_config(text, "job.yaml");
  INFO(text);
  if (!out) {
    FAIL(out.error().message);
  }
  return *out;
}

std::string refused(const std::string& text) {
  const auto out = parse_accelerate_config(text, "job.yaml");
  INFO(text);
  REQUIRE_FALSE(out);
  CHECK(out.error().code == Errc::usage);
  return out.error().message;
}

// As written by accelerate config 1.15 for two machines with four GPUs each.
const std::string kTwoMachines =
    "compute_environment: LOCAL_MACHINE\n"
    "debug: true\n"
    "distributed_type: MULTI_GPU\n"
    "downcast_bf16: 'no'\n"
    "enable_cpu_affinity: true\n"
    "gpu_ids: 0,2\n"
    "machine_rank: 1\n"
    "main_process_ip: 10.0.0.1\n"
    "main_process_port: 29501\n"
    "main_training_function: main\n"
    "mixed_precision: bf16\n"
    "num_machines: 2\n"
    "num_processes: 8\n"
    "rdzv_backend: static\n"
    "same_network: true\n"
    "tpu_env: []\n"
    "tpu_use_cluster: false\n"
    "tpu_use_sudo: false\n"
    "use_cpu: false\n";

}  // namespace

TEST_CASE("accelerate config: two machines") {
  using enum OptionId;
  CHECK(parsed(kTwoMachines) ==
        AccelerateConfig{.values = {{nproc_per_node, "4"},
                                    {nnodes, "2"},
                                    {node_rank, "1"},
                                    {rdzv_backend, "static"},
                                    {rdzv_endpoint, "10.0.0.1:29501"}},
                         .variables = {{"ACCELERATE_CPU_AFFINITY", "1"},
                                       {"ACCELERATE_DEBUG_MODE", "true"},
                                       {"ACCELERATE_MIXED_PRECISION", "bf16"},
                                       {"ACCELERATE_USE_CPU", "false"},
                                       {"CUDA_VISIBLE_DEVICES", "0,2"}}});
}

TEST_CASE("accelerate config: one machine uses any port unless one is specified") {
  using enum OptionId;
  const std::map<std::string, std::string> plain{{"ACCELERATE_MIXED_PRECISION", "no"},
                                                 {"ACCELERATE_USE_CPU", "true"}};
  CHECK(parsed("use_cpu: true\nnum_processes: 2\n") ==
        AccelerateConfig{{{nproc_per_node, "2"}}, plain});
  CHECK(parsed("# cpu\n---\nuse_cpu: True # yes\r\nnum_processes: -1\ngpu_ids: all\n"
               "fsdp_config: {}\nmain_process_ip: null\n") == AccelerateConfig{{}, plain});
  CHECK(parsed("main_process_port: 4000\n").values.at(master_port) == "4000");
  CHECK(parsed("main_process_port: 0\n").values.empty());
  CHECK(parsed("num_cpu_threads_per_process: 3\n").variables.at("OMP_NUM_THREADS") == "3");
  CHECK(parsed("gpu_ids: \"1\"\n").variables.at("CUDA_VISIBLE_DEVICES") == "1");
}

TEST_CASE("accelerate config: c10d assigns ranks by itself") {
  const auto out = parsed(
      "num_machines: 2\nnum_processes: 2\nmachine_rank: 1\nrdzv_backend: c10d\n"
      "main_process_ip: head\nmain_process_port: 1\n");
  CHECK_FALSE(out.values.contains(OptionId::node_rank));
  CHECK(out.values.at(OptionId::rdzv_endpoint) == "head:1");
}

// As written by accelerate config 0.20, with sections from later versions.
const std::string kOldFile =
    "command_file: null\n"
    "commands: null\n"
    "compute_environment: LOCAL_MACHINE\n"
    "deepspeed_config: {}\n"
    "distributed_type: MULTI_GPU\n"
    "downcast_bf16: 'no'\n"
    "dynamo_backend: 'NO'\n"
    "fsdp_config: {}\n"
    "gpu_ids: all\n"
    "ipex_config:\n"
    "  ipex: false\n"
    "machine_rank: 0\n"
    "main_process_ip: null\n"
    "main_process_port: null\n"
    "main_training_function: main\n"
    "megatron_lm_config: {}\n"
    "mixed_precision: bf16\n"
    "num_machines: 1\n"
    "num_processes: 2\n"
    "rdzv_backend: static\n"
    "same_network: true\n"
    "tpu_name: null\n"
    "tpu_zone: null\n"
    "use_cpu: false\n";

TEST_CASE("accelerate config: accepts settings without an effect, in YAML and in JSON") {
  const AccelerateConfig wanted{
      .values = {{OptionId::nproc_per_node, "2"}},
      .variables = {{"ACCELERATE_MIXED_PRECISION", "bf16"}, {"ACCELERATE_USE_CPU", "false"}}};
  CHECK(parsed(kOldFile) == wanted);
  CHECK(parsed(R"({
  "commands": null, "distributed_type": "NO", "ipex_config": {"ipex": false, "use_xpu": false},
  "fsdp_config": {}, "tpu_env": [], "mixed_precision": "bf16", "num_machines": 1,
  "num_processes": 2, "gpu_ids": "all", "use_cpu": false
})") == wanted);
}

TEST_CASE("accelerate config: rejected settings in JSON") {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {R"({"num_processes": 2)", ": not a JSON object"},
           {R"({"num_processes": "many"})", ": num_processes: many: must be a number"},
           {R"({"fsdp_config": {"fsdp_version": 2}})", ": 'fsdp_version: 2' is part of a section"},
           {R"({"a\nuse_cpu": 1})", R"(: unknown key 'a\nuse_cpu')"},
           {R"({"commands": ["a"]})", ": unknown key 'commands'"}}) {
    CHECK_THAT(refused(text), Catch::StartsWith("accelerate config job.yaml" + why));
  }
}

TEST_CASE("accelerate config: rejected settings, with their position") {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"num_machines: 2\nnum_processes: 3\nmain_process_ip: a\nmain_process_port: 1\n",
            "line 2: num_processes: 3: is not divisible by num_machines (2)"},
           {"num_machines: 2\n", "needs both main_process_ip and main_process_port"},
           {"num_machines: 0\n", "line 1: num_machines: 0: must be a number from 1"},
           {"num_processes: many\n", "must be a number"},
           {"main_process_port: 65536\n", "must be a port"},
           {"distributed_type: FSDP\n", "line 1: distributed_type: FSDP: needs accelerate launch"},
           {"compute_environment: AMAZON_SAGEMAKER\n", "supports LOCAL_MACHINE"},
           {"fsdp_config:\n  fsdp_version: 2\n", "line 2: 'fsdp_version: 2' is part of a section"},
           {"deepspeed_config: {zero_stage: 3}\n", "line 1: deepspeed_config needs accelerate"},
           {"ipex_config:\n  ipex: true\n", "line 2: 'ipex: true' is part of a section"},
           {"commands:\n- echo\n", "line 2: '- echo' is part of a section"},
           {"num_procesess: 2\n", "line 1: unknown key 'num_procesess'"},
           {"debug: true\ndebug: false\n", "line 2: 'debug' is set twice"},
           {"no colon\n", "line 1: unknown key 'no colon'"},
           {"a\x1b[2J: 1\n", "unknown key 'a[2J'"}}) {
    CHECK_THAT(refused(text), Catch::Contains(why));
    CHECK_THAT(refused(text), Catch::StartsWith("accelerate config job.yaml"));
  }
}

TEST_CASE("accelerate config: garbage is rejected or accepted, without any other effect") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2'000; ++i) {
    std::string text = kTwoMachines;
    for (int change = 0; change < 4; ++change) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto out = parse_accelerate_config(text, "job.yaml");
    CHECK((out || out.error().message.find('\n') == std::string::npos));
  }
}

TEST_CASE(
    "accelerate config: the command line takes precedence, and workers receive the variables") {
  Launch launch{{"--accelerate-config=job.yaml", "--nproc-per-node=3"}, {{"OTHER", "kept"}}};
  launch.machine.texts["job.yaml"] = "num_processes: 2\nmixed_precision: fp16\n";
  const auto out = launch.resolved();
  REQUIRE(out);
  CHECK(out->config.nproc == 3);
  CHECK(out->environ.get("ACCELERATE_MIXED_PRECISION") == "fp16");
  CHECK(out->environ.get("OTHER") == "kept");
  launch.args = {"--accelerate-config=job.yaml"};
  CHECK(launch.config().nproc == 2);
  launch.args = {"--accelerate-config=job.yaml", "--config=job.toml"};
  CHECK_THAT(launch.error(),
             Catch::Contains("--config and --accelerate-config cannot be combined"));
  launch.args = {"--accelerate-config=none.yaml"};
  CHECK(launch.error() == "--accelerate-config: none.yaml: No such file or directory");
}
