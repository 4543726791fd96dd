// SPDX-License-Identifier: Apache-2.0
// Who signals the workers, and how long they may take if a scheduler does it.
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Variables step(const Variables& more = {}) {
  Variables all{{"SLURM_JOB_ID", "7"},
                {"SLURM_STEP_ID", "0"},
                {"SLURM_STEP_NODELIST", "a"},
                {"SLURM_STEP_NUM_NODES", "1"},
                {"SLURM_STEP_TASKS_PER_NODE", "1"},
                {"SLURM_NODEID", "0"},
                {"SLURM_PROCID", "0"},
                {"SLURM_LOCALID", "0"}};
  all.insert(more.begin(), more.end());
  return all;
}

Variables allocation() {
  return {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_JOB_NODELIST", "a"}};
}

SignalDelivery delivery(std::vector<std::string> args, const Variables& variables) {
  return Launch{std::move(args), variables}.config().signal_delivery;
}

}  // namespace

TEST_CASE("signal delivery: to all processes in a Slurm step, else to the leader, or as typed") {
  CHECK(delivery({}, {}) == SignalDelivery::leader);
  CHECK(delivery({}, step()) == SignalDelivery::slurm_step);
  CHECK(delivery({}, allocation()) == SignalDelivery::leader);
  CHECK(delivery({"--platform=none"}, step()) == SignalDelivery::leader);
  CHECK(delivery({"--signal-delivery=leader"}, step()) == SignalDelivery::leader);
  CHECK(delivery({"--signal-delivery=group"}, step()) == SignalDelivery::group);
  CHECK(delivery({"--signal-delivery=group"}, {}) == SignalDelivery::group);
  CHECK(error({"--signal-delivery=all"}).find("auto, group, leader") != std::string::npos);
}

TEST_CASE("signal delivery: auto shows its source") {
  const auto origins = Launch{{}, step()}.config().origins;
  CHECK(origins.at("signal-delivery") == "Slurm step 7.0");
}

TEST_CASE("signal delivery: the end of the job extends the default grace period") {
  const auto timed = step({{"SLURM_JOB_END_TIME", "1790000000"}});
  CHECK(Launch{{}, timed}.config().job_ends == 1'790'000'000);
  CHECK_FALSE(Launch{{}, step()}.config().job_ends);
  CHECK_FALSE(Launch{{"--shutdown-timeout=30"}, timed}.config().job_ends);
  CHECK_FALSE(Launch{{"--signal-delivery=leader"}, timed}.config().job_ends);
  auto inherited = timed;
  inherited.emplace("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "5");
  CHECK_FALSE(Launch{{}, inherited}.config().job_ends);
  for (const char* bad : {"", "0", "-1", "soon", "99999999999", "1e9"}) {
    INFO(bad);
    CHECK_FALSE(Launch{{}, step({{"SLURM_JOB_END_TIME", bad}})}.config().job_ends);
  }
}
