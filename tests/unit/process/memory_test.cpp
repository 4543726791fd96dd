// SPDX-License-Identifier: Apache-2.0
#include "process/values/memory.hpp"

#include "job_probe.hpp"
#include "support/catch.hpp"

#include <filesystem>

using namespace muster;
using namespace muster::testing;

TEST_CASE("memory: version 2 reports kills, limit and peak") {
  const TempDir dir;
  const std::string group = dir.path() + "/job";
  std::filesystem::create_directories(group);
  write_file(group + "/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n");
  write_file(group + "/memory.max", "536870912\n");
  write_file(group + "/memory.peak", "536866816\n");
  CHECK(memory_group_folder("0::/job\n", dir.path()) == group);
  const auto facts = read_memory_facts(group);
  CHECK(facts.kills == 2);
  CHECK(facts.describe() == "limit 512 MiB, peak 512 MiB");
}

TEST_CASE("memory: version 1 reports the same, and the maximum means no limit") {
  const TempDir dir;
  const std::string group = dir.path() + "/memory/a:b";
  std::filesystem::create_directories(group);
  write_file(group + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  write_file(group + "/memory.limit_in_bytes", "9223372036854771712\n");
  write_file(group + "/memory.max_usage_in_bytes", "21474836480\n");
  const auto* const text = "5:cpu,cpuacct:/x\n4:hugetlb,memory:/a:b\n0::/\n";
  CHECK(memory_group_folder(text, dir.path()) == group);
  const auto facts = read_memory_facts(group);
  CHECK(facts.kills == 1);
  CHECK_FALSE(facts.limit_bytes);
  CHECK(facts.describe() == "peak 20.0 GiB");
}

TEST_CASE("memory: in a container the root of the mount is the group") {
  const TempDir dir;
  write_file(dir.path() + "/memory.events", "oom_kill 0\n");
  CHECK(memory_group_folder("0::/kubepods/pod1/c2\n", dir.path()) == dir.path());
}

TEST_CASE("memory: without a memory group nothing is known") {
  const TempDir dir;
  CHECK(memory_group_folder("1:cpu:/\n", dir.path()).empty());
  CHECK(memory_group_folder("", dir.path()).empty());
  CHECK(read_memory_facts("") == MemoryFacts{});
  CHECK(read_memory_facts(dir.path()) == MemoryFacts{});
  CHECK_FALSE(value_of("oom_kills 1\n", "oom_kill"));
}
