// SPDX-License-Identifier: Apache-2.0
// Which ranks --debug starts under a debugger.
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

using Words = std::vector<std::string>;

std::string debugged(const Words& options) {
  const LaunchConfig config = Launch{options, {}}.config();
  return config.debug_ranks
             ? config.debug_ranks->describe() + (config.debug_waits ? "" : " at once")
             : "none";
}

std::string debug_refusal(const Words& options, const std::string& program = "train.py") {
  Launch launch{options, {}};
  launch.program = {program};
  const auto refused = launch.resolved();
  return refused ? "" : refused.error().message;
}

}  // namespace

TEST_CASE("debug: the ranks, and whether they wait") {
  CHECK(debugged({}) == "none");
  CHECK(debugged({"--debug"}) == "0");
  CHECK(debugged({"--debug=1,3-4", "--nproc-per-node=5"}) == "1,3-4");
  CHECK(debugged({"--debug=0,nowait"}) == "0 at once");
  CHECK(debugged({"--debug=5", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=head"}) ==
        "5");
}

TEST_CASE("debug: refuses what is not a rank of a Python program") {
  CHECK(debug_refusal({"--debug=x"}).find("must be ranks below") != std::string::npos);
  CHECK(debug_refusal({"--debug=nowait"}).find("must be ranks below") != std::string::npos);
  CHECK(debug_refusal({"--debug=1"}).find("the last rank of this job is 0") != std::string::npos);
  CHECK(debug_refusal({"--debug"}, "./solver").find("needs a Python program") != std::string::npos);
}
