// SPDX-License-Identifier: Apache-2.0
#include "agent/signal_reach.hpp"

#include "support/catch.hpp"

#include <array>
#include <csignal>

#include <sys/prctl.h>
#include <unistd.h>

using namespace muster;

namespace {

constexpr SignalNotice kFromProcess{SIGTERM, SI_USER, 7, 0};
constexpr SignalNotice kFromOutside{SIGTERM, SI_USER, 0, 0};
constexpr SignalNotice kFromTerminal{SIGINT, SI_KERNEL, 0, 0};

}  // namespace

TEST_CASE("signal reach: in a Slurm step only signals from Slurm have reached the workers") {
  using enum SignalDelivery;
  CHECK(reached_workers(slurm_step, kFromProcess, "slurmstepd"));
  CHECK(reached_workers(slurm_step, kFromOutside, ""));
  CHECK_FALSE(reached_workers(slurm_step, kFromProcess, "timeout"));
  CHECK_FALSE(reached_workers(slurm_step, kFromProcess, ""));
  CHECK_FALSE(reached_workers(slurm_step, kFromTerminal, ""));
}

TEST_CASE("signal reach: outside Slurm the option decides, except for signals from a terminal") {
  using enum SignalDelivery;
  for (const SignalNotice& notice : {kFromProcess, kFromOutside}) {
    CHECK(reached_workers(group, notice, "systemd"));
    CHECK_FALSE(reached_workers(leader, notice, "slurmstepd"));
  }
  CHECK_FALSE(reached_workers(group, kFromTerminal, ""));
}

TEST_CASE("signal reach: finds the name of a live process") {
  std::array<char, 16> before{};
  ::prctl(PR_GET_NAME, before.data());
  ::prctl(PR_SET_NAME, "slurmstepd");
  CHECK(process_name(::getpid()) == "slurmstepd");
  ::prctl(PR_SET_NAME, before.data());
  CHECK(process_name(0).empty());
}
