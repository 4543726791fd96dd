// SPDX-License-Identifier: Apache-2.0
#include "config/options/suggest.hpp"

#include "config/options/rdzv_conf.hpp"
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

std::vector<std::string> warnings_for(const std::string& variable) {
  const std::map<std::string, std::string, std::less<>> variables{{variable, "2"}};
  return mistyped_variables(Environ(variables), Personality::muster);
}

}  // namespace

TEST_CASE("suggest: a warning about a mistyped variable names the intended one") {
  CHECK(warnings_for("MUSTER_NPROC") ==
        std::vector<std::string>{
            "ignoring unknown variable MUSTER_NPROC; did you mean MUSTER_NPROC_PER_NODE?"});
  CHECK(warnings_for("PET_NNODE") ==
        std::vector<std::string>{"ignoring unknown variable PET_NNODE; did you mean PET_NNODES?"});
  CHECK(warnings_for("MUSTER_MAX_RESTART").size() == 1);
  CHECK(warnings_for("PET_NODE").front().ends_with("PET_NODE_RANK?"));
  // The user gets only one warning.
  CHECK(Launch{{}, {{"PET_NNODE", "2"}}}.warnings().size() == 1);
  CHECK(Launch{{"--nnodes=1"}, {{"PET_NNODES", "1"}}}.warnings().empty());
}

TEST_CASE("suggest: no warning about other programs' variables or those that muster reads") {
  for (const Option& row : all_options()) {
    CHECK(warnings_for(muster_variable(row)).empty());
    CHECK(warnings_for(pet_variable(row)).empty());
  }
  for (const char* other : {"MUSTER_COLLECTIVE_TIMEOUT",
                            "MUSTER_COLLECTIVE_LIBRARY",
                            "MUSTER_COLLECTIVE_HOST",
                            "MUSTER_CUDA_LIBRARY",
                            "MUSTER_BIN",
                            "MUSTER_PUPPET",
                            "MUSTER_NODE_WORKER",
                            "MUSTER_SEED",
                            "MUSTER_REWRITE",
                            "MUSTER_KERNELS",
                            "MUSTER_SOMETHING_ELSE",
                            "PET_NAME",
                            "NPROC",
                            "PATH"}) {
    INFO(other);
    CHECK(warnings_for(other).empty());
  }
}

TEST_CASE("suggest: a warning names a mistyped key of --rdzv-conf, but not other unknown keys") {
  CHECK(mistyped_keys({{"lst_call_timeout", "5"}}) ==
        std::vector<std::string>{"ignoring unknown key lst_call_timeout in --rdzv-conf; "
                                 "did you mean last_call_timeout?"});
  CHECK(mistyped_keys({{"'join_timeout", "5"}}).size() == 1);
  CHECK(mistyped_keys({{"protocol", "https"}, {"cacert", "x"}, {"odd", "1"}}).empty());
  for (const RdzvKey& key : rdzv_keys()) {
    CHECK(mistyped_keys({{std::string(key.name), "1"}}).empty());
  }
  CHECK(Launch{{"--rdzv-conf=lst_call_timeout=5"}, {}}.warnings().size() == 1);
}

TEST_CASE("suggest: suggests the nearest name, or the only one with that prefix") {
  const std::vector<std::string_view> names{"log-dir", "log-level", "node-rank"};
  CHECK(nearest_name("log-dor", names) == "log-dir");
  CHECK(nearest_name("node", names) == "node-rank");
  CHECK(nearest_name("log", names).empty());
  CHECK(nearest_name("banana", names).empty());
}

TEST_CASE("suggest: suggests muster's equivalents for options of accelerate launch and mpirun") {
  const auto answer = [](const std::string& arg) {
    const auto line = parse_command_line(Personality::muster, {arg, "2", "train.py"});
    return line ? "no error" : line.error().message;
  };
  CHECK(answer("--num_machines") == "unknown option --num_machines: use --nnodes=N");
  CHECK(answer("--machine_rank") == "unknown option --machine_rank: use --node-rank=N");
  CHECK(answer("--num_processes") ==
        "unknown option --num_processes: use --nproc-per-node=N, the number of workers per "
        "node (num_processes divided by the number of nodes)");
  CHECK(answer("--main_process_ip") ==
        "unknown option --main_process_ip: use --master-addr=ADDRESS");
  CHECK(answer("--machinefile") == "unknown option --machinefile: use --hostfile=FILE");
}
