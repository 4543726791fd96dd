// SPDX-License-Identifier: Apache-2.0
#include "platform/job_ports.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <set>
#include <string>

using namespace muster;

TEST_CASE("job ports: eight different ports in the range, the same for the same job") {
  const auto ports = job_ports("slurm/probe/2/0");
  CHECK(ports == job_ports("slurm/probe/2/0"));
  CHECK(std::set(ports.begin(), ports.end()).size() == kJobPortCandidates);
  for (int job = 0; job < 1000; ++job) {
    CHECK(std::ranges::all_of(job_ports("slurm/c/" + std::to_string(job)), [](std::uint16_t port) {
      return kJobPortFirst <= port && port < kJobPortFirst + kJobPortCount;
    }));
  }
}

TEST_CASE("job ports: jobs with adjacent ids do not start at the same port") {
  std::set<std::uint16_t> first;
  for (int job = 0; job < 300; ++job) {
    first.insert(job_ports("slurm/c/" + std::to_string(job) + "/0").front());
  }
  CHECK(first.size() > 270);  // 300 draws from 9000: 295 on average
}

TEST_CASE("job ports: a range smaller than the number of candidates lists each port once") {
  const auto ports = job_ports("x", 100, 3);
  CHECK(std::set(ports.begin(), ports.end()) == std::set<std::uint16_t>{100, 101, 102});
}
