// SPDX-License-Identifier: Apache-2.0
// Which platform is detected, and how single variables are read. The golden tests of config cover
// the results of each platform's variables.
#include "platform/platforms.hpp"
#include "support/catch.hpp"
#include "unit/platform/fake_facts.hpp"

#include <algorithm>

using namespace muster;

namespace {

const std::map<std::string, std::string, std::less<>> kStep{{"SLURM_JOB_ID", "7"},
                                                            {"SLURM_STEP_ID", "0"},
                                                            {"SLURM_NODEID", "1"},
                                                            {"SLURM_PROCID", "1"},
                                                            {"SLURM_LOCALID", "0"},
                                                            {"SLURM_STEP_NODELIST", "a[1-2]"},
                                                            {"SLURM_STEP_NUM_NODES", "2"},
                                                            {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};

PlatformFacts step_with(std::string_view name, std::string_view value) {
  PlatformFacts facts = fake_facts(kStep, "a2");
  facts.environ.set(name, value);
  return facts;
}

}  // namespace

TEST_CASE("facts: text that is not a number is ignored") {
  for (const std::string text : {"",
                                 " ",
                                 "(null)",
                                 "tcp://10.0.0.1:29500",
                                 "1 ",
                                 " 1",
                                 "+1",
                                 "-1",
                                 "1.0",
                                 "0x1",
                                 "1e3",
                                 "99999999999999999999",
                                 "2147483648"}) {
    INFO(text);
    CHECK_FALSE(fake_facts({{"N", text}}).number("N"));
  }
  CHECK(fake_facts({{"N", "007"}}).number("N") == Said<int>{7, "N"});
  CHECK_FALSE(fake_facts({{"N", "0"}}).number("N", 1));
  CHECK_FALSE(fake_facts({{"N", "65536"}}).port("N"));
  CHECK_FALSE(fake_facts({{"N", "0"}}).port("N"));
}

TEST_CASE("facts: a word contains no blanks and has a maximum length") {
  CHECK_FALSE(fake_facts({{"W", "(null)"}}).word("W"));
  CHECK_FALSE(fake_facts({{"W", "a b"}}).word("W"));
  CHECK_FALSE(fake_facts({{"W", "a\x01"}}).word("W"));
  CHECK(fake_facts({{"W", std::string(kWordMax, 'x')}}).word("W"));
  CHECK_FALSE(fake_facts({{"W", std::string(kWordMax + 1, 'x')}}).word("W"));
}

TEST_CASE("facts: recognizes this machine by name and by address") {
  const PlatformFacts facts = fake_facts({}, "node02.cluster");
  for (const std::string_view name : {"NODE02", "node02", "Node02.Cluster", "10.0.0.7"}) {
    INFO(name);
    CHECK(facts.is_me(name));
  }
  for (const std::string_view name : {"node2", "node02.other", "10.0.0.8", "10", "node"}) {
    INFO(name);
    CHECK_FALSE(facts.is_me(name));
  }
  CHECK(facts.my_place({"node01", "NODE02"}) == 1);
  CHECK_FALSE(facts.my_place({"node01"}));
}

TEST_CASE("detect: no platform, one selected by name, and detection disabled") {
  CHECK(detect(fake_facts({}), "auto")->name == "none");
  CHECK(detect(fake_facts(kStep, "a2"), "auto")->name == "slurm");
  CHECK(detect(fake_facts(kStep, "a2"), "none")->name == "none");
  CHECK(detect(fake_facts(kStep, "a2"), "slurm")->node->value == 1);
  CHECK(detect(fake_facts(kStep, "a2"), "lsf").error().message ==
        "--platform=lsf: its variables are missing or inconsistent. Use --platform=auto to detect "
        "another platform");
  const auto unknown = detect(fake_facts({}), "slrum");
  CHECK(
      unknown.error().message.starts_with("--platform=slrum: must be one of auto, none, open-mpi"));
}

TEST_CASE("detect: ignores the platform in a worker of another launcher") {
  CHECK(detect(step_with("TORCHELASTIC_RUN_ID", "x"), "auto")->name == "none");
  CHECK(detect(step_with("TORCHELASTIC_RUN_ID", "x"), "slurm")->name == "slurm");
}

TEST_CASE("detect: mpirun inside a Slurm step takes precedence, and Slurm is mentioned") {
  PlatformFacts facts = fake_facts(kStep, "a2");
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"RANK", "0"}, {"SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_SIZE", "1"}}) {
    facts.environ.set("OMPI_COMM_WORLD_" + name, value);
  }
  const auto plan = detect(facts, "auto");
  CHECK(plan->name == "open-mpi");
  CHECK(plan->also == std::vector<std::string>{"Slurm"});
}

TEST_CASE("detect: inconsistent Slurm variables count as leftovers") {
  const std::vector<std::pair<std::string, std::string>> wrong{{"SLURM_NODEID", "2"},
                                                               {"SLURM_NODEID", ""},
                                                               {"SLURM_PROCID", "2"},
                                                               {"SLURM_LOCALID", "1"},
                                                               {"SLURM_STEP_NUM_NODES", "3"},
                                                               {"SLURM_STEP_NODELIST", "a[1-3]"},
                                                               {"SLURM_STEP_NODELIST", "a[2-1]"},
                                                               {"SLURM_STEP_NODELIST", "(null)"},
                                                               {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                                               {"SLURM_STEP_TASKS_PER_NODE", "x"}};
  for (const auto& [name, value] : wrong) {
    INFO(name << "=" << value);
    const auto plan = detect(step_with(name, value), "auto");
    CHECK(plan->name == "none");
    CHECK(plan->warnings.size() == 1);
  }
}

TEST_CASE("detect: every row has a name and a title, and detects nothing in an empty environment") {
  for (const PlatformRow& row : platform_rows()) {
    INFO(row.name);
    CHECK_FALSE(row.name.empty());
    CHECK_FALSE(row.title.empty());
    CHECK_FALSE(row.read(fake_facts({})));
  }
}

TEST_CASE("as_node: the same job as seen by another node, within its bounds") {
  const auto plan = detect(fake_facts(kStep, "a2"), "auto");
  CHECK_FALSE(is_host(*plan));
  const auto first = as_node(*plan, 0);
  CHECK(is_host(*first));
  CHECK(first->node == Said<int>{0, "--as-node"});
  CHECK(as_node(*plan, 2).error().message == "--as-node=2: the job has 2 nodes, numbered from 0");
  CHECK_FALSE(as_node(*plan, -1));
}

TEST_CASE("detect: SkyPilot lists one address per line, one for each machine") {
  auto facts = fake_facts({{"SKYPILOT_NUM_NODES", "2"},
                           {"SKYPILOT_NODE_RANK", "1"},
                           {"SKYPILOT_NODE_IPS", "10.0.0.4\n10.0.0.7\n"},
                           {"SKYPILOT_NUM_GPUS_PER_NODE", "0"},
                           {"SKYPILOT_TASK_ID", "sky-1"}});
  const auto plan = detect(facts, "auto");
  REQUIRE(plan);
  CHECK(plan->name == "skypilot");
  CHECK(plan->nodes == Said<int>{2, "SKYPILOT_NUM_NODES"});
  CHECK(plan->node == Said<int>{1, "SKYPILOT_NODE_RANK"});
  CHECK(plan->hosts == Said<std::vector<std::string>>{{"10.0.0.4"}, "SKYPILOT_NODE_IPS"});
  CHECK_FALSE(plan->gpus);
  CHECK(plan->run_id == Said<std::string>{"sky-1", "SKYPILOT_TASK_ID"});
  facts.environ.set("SKYPILOT_NODE_IPS", "10.0.0.4");
  CHECK(detect(facts, "auto")->name == "none");
}
