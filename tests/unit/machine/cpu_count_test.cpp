// SPDX-License-Identifier: Apache-2.0
#include "machine/cpu_count.hpp"

#include "support/catch.hpp"

#include <map>

using namespace muster;

namespace {

TextReader files(std::map<std::string, std::string> texts) {
  return [texts = std::move(texts)](const std::string& path) -> std::optional<std::string> {
    const auto found = texts.find(path);
    return found == texts.end() ? std::nullopt : std::optional(found->second);
  };
}

constexpr std::string_view kMountV2 =
    "25 1 0:22 / /proc rw - proc proc rw\n"
    "31 25 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

constexpr std::string_view kMountV1 =
    "33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 32 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

}  // namespace

TEST_CASE("cpu count: a quota is rounded up to whole CPUs") {
  CHECK(quota_from_cpu_max("150000 100000\n") == 2);
  CHECK(quota_from_cpu_max("100000 100000") == 1);
  CHECK(quota_from_cpu_max("1000 100000") == 1);
  CHECK_FALSE(quota_from_cpu_max("max 100000\n"));
  CHECK_FALSE(quota_from_cpu_max(""));
  CHECK(quota_from_cfs("250000\n", "100000\n") == 3);
  CHECK_FALSE(quota_from_cfs("-1\n", "100000\n"));
  CHECK_FALSE(quota_from_cfs("100000", "0"));
}

TEST_CASE("cpu count: version 2 uses the smallest quota of our group and its ancestors") {
  const auto read = files({{"/sys/fs/cgroup/jobs/mine/cpu.max", "max 100000"},
                           {"/sys/fs/cgroup/jobs/cpu.max", "300000 100000"},
                           {"/sys/fs/cgroup/cpu.max", "800000 100000"}});
  CHECK(cgroup_quota("0::/jobs/mine\n", kMountV2, read) == 3);
}

TEST_CASE("cpu count: version 2 without any quota returns none") {
  CHECK_FALSE(cgroup_quota("0::/\n", kMountV2, files({})));
  CHECK_FALSE(cgroup_quota("", "", files({})));
}

TEST_CASE("cpu count: version 1 reads the mount with the cpu controller") {
  const auto read = files({{"/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "200000"},
                           {"/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000"},
                           {"/sys/fs/cgroup/memory/a/b/cpu.cfs_quota_us", "1"},
                           {"/sys/fs/cgroup/memory/a/b/cpu.cfs_period_us", "1"}});
  CHECK(cgroup_quota("4:cpu,cpuacct:/a/b\n5:memory:/a/b\n", kMountV1, read) == 2);
}

TEST_CASE("cpu count: in a container the mount shows part of the hierarchy") {
  const std::string_view mount =
      "33 32 0:29 /docker/c0ffee /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
  const auto read = files({{"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000"},
                           {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"}});
  CHECK(cgroup_quota("2:cpu:/docker/c0ffee\n", mount, read) == 4);
  CHECK(cgroup_quota("2:cpu:/elsewhere\n", mount, read) == 4);
}
