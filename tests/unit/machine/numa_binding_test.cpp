// SPDX-License-Identifier: Apache-2.0
// The masks on about thirty machines, written by hand from their documentation.
#include "machine/numa_binding.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"
#include "unit/machine/machine_layouts.hpp"

#include <fmt/core.h>

#include <unordered_map>

using namespace muster;
using namespace muster::testing;

namespace {

using Masks = std::vector<std::string>;
using enum NumaPolicy;

struct Job {
  SysfsTree tree;
  std::string usable;
  Addresses gpus{};
  std::string memory_allowed = "0-255";
};

NumaRequest request_of(const Job& job, NumaPolicy policy, int ranks) {
  return {policy,
          ranks,
          CpuSet::parse(job.usable).value(),
          CpuSet::parse(job.memory_allowed).value(),
          job.gpus};
}

// "CPUs @ memory nodes" for each rank, or the error.
Masks masks(const Job& job, NumaPolicy policy, int ranks) {
  const NumaRequest request = request_of(job, policy, ranks);
  const auto plan = bind_ranks(request, job.tree.reader());
  if (!plan) {
    return {plan.error().message};
  }
  Masks out;
  for (const RankBinding& rank : plan->ranks) {
    CHECK_FALSE(rank.cpus.empty());
    CHECK((rank.cpus - request.usable).empty());
    out.push_back(rank.cpus.describe() + " @ " + rank.memory.describe());
  }
  return out;
}

std::string reason(const Job& job, NumaPolicy policy, int ranks) {
  return bind_ranks(request_of(job, policy, ranks), job.tree.reader())->reason;
}

Masks repeated(const std::string& mask, std::size_t times) {
  return Masks(times, mask);
}

Masks operator+(Masks one, const Masks& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

}  // namespace

TEST_CASE("numa: DGX H100") {
  const Job job{dgx_h100(), "0-223", kDgxH100Gpus};
  const Masks nodes = repeated("0-55,112-167 @ 0", 4) + repeated("56-111,168-223 @ 1", 4);
  CHECK(masks(job, node, 8) == nodes);
  CHECK(masks(job, automatic, 8) == nodes);
  CHECK(masks(job, NumaPolicy::socket, 8) == nodes);
  CHECK(masks(job, core_complex, 8) == nodes);
  CHECK(masks(job, exclusive, 8) == Masks{"0-13,112-125 @ 0",
                                          "14-27,126-139 @ 0",
                                          "28-41,140-153 @ 0",
                                          "42-55,154-167 @ 0",
                                          "56-69,168-181 @ 1",
                                          "70-83,182-195 @ 1",
                                          "84-97,196-209 @ 1",
                                          "98-111,210-223 @ 1"});
  CHECK(masks(job, none, 8).empty());
}

TEST_CASE("numa: DGX H100, three workers on its first three GPUs share one node") {
  const Job job{dgx_h100(), "0-223", kDgxH100Gpus};
  CHECK(masks(job, exclusive, 3) ==
        Masks{"0-18,112-130 @ 0", "19-37,131-149 @ 0", "38-55,150-167 @ 0"});
}

TEST_CASE("numa: DGX H100 with hyper-threads off") {
  const Job job{dgx_h100_without_threads(), "0-111", kDgxH100Gpus};
  CHECK(masks(job, node, 8) == repeated("0-55 @ 0", 4) + repeated("56-111 @ 1", 4));
  CHECK(masks(job, exclusive, 8)[7] == "98-111 @ 1");
}

TEST_CASE("numa: DGX A100, whose nodes are in a different order from its GPUs") {
  const Job job{dgx_a100(), "0-255", kDgxA100Gpus};
  CHECK(masks(job, node, 8) == repeated("48-63,176-191 @ 3", 2) + repeated("16-31,144-159 @ 1", 2) +
                                   repeated("112-127,240-255 @ 7", 2) +
                                   repeated("80-95,208-223 @ 5", 2));
  CHECK(masks(job, NumaPolicy::socket, 8) ==
        repeated("0-63,128-191 @ 0-3", 4) + repeated("64-127,192-255 @ 4-7", 4));
  CHECK(masks(job, core_complex, 4) ==
        Masks{"48-51,176-179 @ 3", "52-55,180-183 @ 3", "16-19,144-147 @ 1", "20-23,148-151 @ 1"});
  CHECK(masks(job, exclusive, 2) == Masks{"48-55,176-183 @ 3", "56-63,184-191 @ 3"});
}

TEST_CASE("numa: eight MI300X and two CPUs with twelve caches each") {
  const Job job{mi300x(), "0-383", kMi300xGpus};
  CHECK(masks(job, node, 8) == repeated("0-95,192-287 @ 0", 4) + repeated("96-191,288-383 @ 1", 4));
  CHECK(masks(job, core_complex, 8) == Masks{"0-7,192-199 @ 0",
                                             "8-15,200-207 @ 0",
                                             "16-23,208-215 @ 0",
                                             "24-31,216-223 @ 0",
                                             "96-103,288-295 @ 1",
                                             "104-111,296-303 @ 1",
                                             "112-119,304-311 @ 1",
                                             "120-127,312-319 @ 1"});
  CHECK(masks(job, exclusive, 8)[3] == "72-95,264-287 @ 0");
}

TEST_CASE("numa: a node of Frontier") {
  const Job job{frontier(), "0-127", kFrontierGpus};
  CHECK(masks(job, node, 8) == repeated("48-63,112-127 @ 3", 2) + repeated("16-31,80-95 @ 1", 2) +
                                   repeated("0-15,64-79 @ 0", 2) + repeated("32-47,96-111 @ 2", 2));
  CHECK(masks(job, NumaPolicy::socket, 1) == Masks{"0-127 @ 0-3"});
  CHECK(masks(job, core_complex, 2) == Masks{"48-55,112-119 @ 3", "56-63,120-127 @ 3"});
}

TEST_CASE("numa: a node of Frontier, where the first core of each cache is reserved") {
  const Job job{frontier(), "1-7,9-15,17-23,25-31,33-39,41-47,49-55,57-63", kFrontierGpus};
  CHECK(masks(job, core_complex, 8) == Masks{"49-55 @ 3",
                                             "57-63 @ 3",
                                             "17-23 @ 1",
                                             "25-31 @ 1",
                                             "1-7 @ 0",
                                             "9-15 @ 0",
                                             "33-39 @ 2",
                                             "41-47 @ 2"});
}

TEST_CASE("numa: GB200, where GPU memory forms nodes without CPUs, which no worker gets") {
  const Job job{gb200(), "0-143", kGb200Gpus};
  CHECK(masks(job, node, 4) == repeated("0-71 @ 0", 2) + repeated("72-143 @ 1", 2));
  CHECK(masks(job, exclusive, 4) == Masks{"0-35 @ 0", "36-71 @ 0", "72-107 @ 1", "108-143 @ 1"});
  CHECK(masks({gb200(), "0-143"}, node, 2) == Masks{"0-71 @ 0", "72-143 @ 1"});
}

TEST_CASE("numa: a GPU at a memory-only node is near the CPUs with the smallest distance") {
  SysfsTree tree = gb200();
  tree.gpu("0018:01:00.0", 18).distances(18, "120 80 11");
  CHECK(masks({tree, "0-143", {"0018:01:00.0"}}, node, 1) == Masks{"72-143 @ 1"});
  tree.distances(18, "80 120 11");
  CHECK(masks({tree, "0-143", {"0018:01:00.0"}}, node, 1) == Masks{"0-71 @ 0"});
}

TEST_CASE("numa: POWER9, with gaps in its node numbers") {
  const Job job{power9(), "0-159", kPower9Gpus};
  CHECK(masks(job, node, 4) == repeated("0-79 @ 0", 2) + repeated("80-159 @ 8", 2));
  CHECK(masks(job, exclusive, 4) == Masks{"0-39 @ 0", "40-79 @ 0", "80-119 @ 8", "120-159 @ 8"});
  CHECK(masks({power9(), "0-159"}, exclusive, 3) == Masks{"0-39 @ 0", "40-79 @ 0", "80-159 @ 8"});
}

TEST_CASE("numa: sockets that are split into two nodes each") {
  const Job job{sub_numa_clusters(), "0-159", {"0000:17:00.0", "0000:65:00.0", "0000:ca:00.0"}};
  CHECK(masks(job, node, 3) == Masks{"0-19,80-99 @ 0", "20-39,100-119 @ 1", "60-79,140-159 @ 3"});
  CHECK(masks(job, NumaPolicy::socket, 3) ==
        Masks{"0-39,80-119 @ 0-1", "0-39,80-119 @ 0-1", "40-79,120-159 @ 2-3"});
  CHECK(masks({sub_numa_clusters(), "0-159"}, NumaPolicy::socket, 2) ==
        Masks{"0-39,80-119 @ 0-1", "40-79,120-159 @ 2-3"});
}

TEST_CASE("numa: a cloud instance with adjacent sibling threads") {
  const Job job{cloud(), "0-207", kCloudGpus};
  CHECK(masks(job, node, 8) == repeated("0-103 @ 0", 4) + repeated("104-207 @ 1", 4));
  CHECK(masks(job, exclusive, 8) == Masks{"0-25 @ 0",
                                          "26-51 @ 0",
                                          "52-77 @ 0",
                                          "78-103 @ 0",
                                          "104-129 @ 1",
                                          "130-155 @ 1",
                                          "156-181 @ 1",
                                          "182-207 @ 1"});
}

TEST_CASE("numa: CPU numbers that alternate between the sockets") {
  const Job job{alternating(), "0-7", {"0000:3b:00.0", "0000:d8:00.0"}};
  CHECK(masks(job, node, 2) == Masks{"0,2,4,6 @ 0", "1,3,5,7 @ 1"});
  CHECK(masks({alternating(), "0-7"}, exclusive, 4) ==
        Masks{"0,2 @ 0", "4,6 @ 0", "1,3 @ 1", "5,7 @ 1"});
}

TEST_CASE("numa: without GPUs ranks are spread over the nodes, neighbours together") {
  const Job job{two_sockets(), "0-15"};
  CHECK(masks(job, node, 1) == Masks{"0-3,8-11 @ 0"});
  CHECK(masks(job, node, 2) == Masks{"0-3,8-11 @ 0", "4-7,12-15 @ 1"});
  CHECK(masks(job, automatic, 4) == repeated("0-3,8-11 @ 0", 2) + repeated("4-7,12-15 @ 1", 2));
  CHECK(masks(job, node, 3) == repeated("0-3,8-11 @ 0", 2) + repeated("4-7,12-15 @ 1", 1));
  CHECK(masks(job, node, 40) == repeated("0-3,8-11 @ 0", 20) + repeated("4-7,12-15 @ 1", 20));
  CHECK(masks(job, exclusive, 5) ==
        Masks{"0-1,8-9 @ 0", "2,10 @ 0", "3,11 @ 0", "4-5,12-13 @ 1", "6-7,14-15 @ 1"});
  CHECK(masks(job, exclusive, 8) == Masks{"0,8 @ 0",
                                          "1,9 @ 0",
                                          "2,10 @ 0",
                                          "3,11 @ 0",
                                          "4,12 @ 1",
                                          "5,13 @ 1",
                                          "6,14 @ 1",
                                          "7,15 @ 1"});
  CHECK(masks(job, exclusive, 9) ==
        Masks{"5 workers belong to NUMA node 0, which has only 4 usable physical cores. Start "
              "fewer workers, or pass --numa-binding=node"});
}

TEST_CASE("numa: a cpuset that is mostly on one node gets most of the ranks there") {
  const Job job{two_sockets(), "0-3,8-11,4-5"};
  CHECK(masks(job, node, 5) == repeated("0-3,8-11 @ 0", 4) + repeated("4-5 @ 1", 1));
  CHECK(masks(job, exclusive, 3) == Masks{"0-1,8-9 @ 0", "2-3,10-11 @ 0", "4-5 @ 1"});
}

TEST_CASE("numa: a GPU at a node whose CPUs are outside the cpuset") {
  SysfsTree tree = two_sockets();
  tree.gpu("0000:3b:00.0", 0).gpu("0000:d8:00.0", 1);
  const Job job{tree, "0-3", {"0000:3b:00.0", "0000:d8:00.0"}};
  CHECK(masks(job, node, 2) ==
        Masks{"local rank 1 has GPU 0000:d8:00.0 on NUMA node 1, but this process may not use "
              "CPUs of that node (only 0-3). Request CPUs near the GPUs from the scheduler, or "
              "pass --numa-binding=none"});
  CHECK(masks(job, automatic, 2).empty());
  CHECK(masks(job, node, 1) == Masks{"0-3 @ 0"});
}

TEST_CASE("numa: a socket counts even if the GPU's own node has no usable CPU") {
  const Job job{sub_numa_clusters(), "20-39", {"0000:17:00.0"}};
  CHECK(masks(job, NumaPolicy::socket, 1) == Masks{"20-39 @ 0-1"});
  CHECK(masks(job, node, 1)[0].find("on NUMA node 0, but this process") != std::string::npos);
}

TEST_CASE("numa: a GPU whose node the kernel does not know counts for the first node") {
  SysfsTree tree = two_sockets();
  tree.gpu("0000:3b:00.0", -1).gpu("0000:d8:00.0", -1);
  const Job job{tree, "0-15", {"0000:3b:00.0", "0000:d8:00.0"}};
  CHECK(masks(job, node, 2) == repeated("0-3,8-11 @ 0", 2));
  CHECK(masks({tree, "4-7", {"0000:3b:00.0"}}, node, 1) == Masks{"4-7 @ 1"});
  CHECK(masks({tree, "0-15", {"", ""}}, node, 2) == repeated("0-3,8-11 @ 0", 2));
  CHECK(masks(job, automatic, 2).empty());
  CHECK(reason(job, automatic, 2) ==
        "the kernel does not report the NUMA node of the GPU of local rank 0");
}

TEST_CASE("numa: an uneven number of GPUs share their own node's cores") {
  SysfsTree tree = two_sockets();
  tree.gpu("0000:01:00.0", 0).gpu("0000:02:00.0", 0).gpu("0000:03:00.0", 1);
  const Job job{tree, "0-15", {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"}};
  CHECK(masks(job, exclusive, 3) == Masks{"0-1,8-9 @ 0", "2-3,10-11 @ 0", "4-7,12-15 @ 1"});
}

TEST_CASE("numa: fewer GPUs than ranks, so ranks are spread as without GPUs") {
  SysfsTree tree = two_sockets();
  tree.gpu("0000:01:00.0", 1);
  const Job job{tree, "0-15", {"0000:01:00.0"}};
  CHECK(masks(job, node, 2) == Masks{"0-3,8-11 @ 0", "4-7,12-15 @ 1"});
  CHECK(reason(job, node, 2) == "spread across the CPUs because there is 1 GPU for 2 workers");
}

TEST_CASE("numa: ignores offline cores") {
  SysfsTree tree;
  tree.node(0, "0-1,3").node(1, "4,6-7").cores("0-7", 0, 1);
  CHECK(masks({tree, "0-1,3-4,6-7"}, exclusive, 2) == Masks{"0-1,3 @ 0", "4,6-7 @ 1"});
  CHECK(masks({tree, "0-1,3-4,6-7"}, exclusive, 6)[4] == "6 @ 1");
}

TEST_CASE("numa: half of a core's threads are offline") {
  SysfsTree tree;
  tree.node(0, "0-3,5").cores("0-3", 4);
  CHECK(masks({tree, "0-3,5"}, exclusive, 2) == Masks{"0-1,5 @ 0", "2-3 @ 0"});
}

TEST_CASE("numa: one core, one CPU") {
  SysfsTree tree;
  tree.node(0, "0").socket(0, "0").cores("0", 0, 1).shared_cache("0");
  for (const NumaPolicy policy : {node, NumaPolicy::socket, exclusive, core_complex}) {
    CHECK(masks({tree, "0"}, policy, 1) == Masks{"0 @ 0"});
  }
  CHECK(masks({tree, "0"}, node, 2) == repeated("0 @ 0", 2));
  CHECK(masks({tree, "0"}, automatic, 2).empty());
  CHECK(reason({tree, "0"}, automatic, 2) == "all usable CPUs are on one NUMA node");
}

TEST_CASE("numa: a memory-only node gets no rank") {
  SysfsTree tree = two_sockets();
  tree.node(2, "");
  CHECK(masks({tree, "0-15"}, node, 4) ==
        repeated("0-3,8-11 @ 0", 2) + repeated("4-7,12-15 @ 1", 2));
}

TEST_CASE("numa: a node without memory binds CPUs only") {
  SysfsTree tree = two_sockets();
  tree.without_memory(1);
  CHECK(masks({tree, "0-15"}, node, 2) == Masks{"0-3,8-11 @ 0", "4-7,12-15 @ "});
}

TEST_CASE("numa: does not request memory outside of the cpuset") {
  CHECK(masks({two_sockets(), "0-15", {}, "1"}, node, 2) == Masks{"0-3,8-11 @ ", "4-7,12-15 @ 1"});
  CHECK(masks({two_sockets(), "0-15", {}, ""}, node, 1) == Masks{"0-3,8-11 @ "});
}

TEST_CASE("numa: two kinds of cores") {
  SysfsTree tree;
  tree.node(0, "0-23").socket(0, "0-23").shared_cache("0-23").cores("16-23", 0, 1);
  for (int first = 0; first < 16; first += 2) {
    tree.cores(std::to_string(first), 1);
  }
  CHECK(masks({tree, "0-23"}, exclusive, 4) ==
        Masks{"0-7 @ 0", "8-15 @ 0", "16-19 @ 0", "20-23 @ 0"});
}

TEST_CASE("numa: uses the largest caches first if the cpuset cuts some of them") {
  SysfsTree tree;
  tree.node(0, "0-11").shared_cache("0-3").shared_cache("4-7").shared_cache("8-11");
  CHECK(masks({tree, "1-11"}, core_complex, 4) ==
        Masks{"4-7 @ 0", "8-11 @ 0", "1-3 @ 0", "4-7 @ 0"});
}

TEST_CASE("numa: an instruction cache does not count as shared") {
  SysfsTree tree;
  tree.node(0, "0-3");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/cache/", cpu);
    tree.file(folder + "index0/level", "1\n").file(folder + "index0/type", "Instruction\n");
    tree.file(folder + "index0/shared_cpu_list", "0-3\n");
    tree.file(folder + "index1/level", "1\n").file(folder + "index1/type", "Data\n");
    tree.file(folder + "index1/shared_cpu_list", cpu < 2 ? "0-1\n" : "2-3\n");
  }
  CHECK(masks({tree, "0-3"}, core_complex, 2) == Masks{"0-1 @ 0", "2-3 @ 0"});
}

TEST_CASE("numa: eight sockets, sixteen ranks") {
  SysfsTree tree;
  for (int id = 0; id < 8; ++id) {
    const std::string cpus = fmt::format("{}-{}", id * 24, id * 24 + 23);
    tree.node(id, cpus).socket(id, cpus).cores(cpus, 0, 1);
  }
  const Masks sixteen = masks({tree, "0-191"}, exclusive, 16);
  REQUIRE(sixteen.size() == 16);
  CHECK(sixteen[0] == "0-11 @ 0");
  CHECK(sixteen[1] == "12-23 @ 0");
  CHECK(sixteen[15] == "180-191 @ 7");
}

TEST_CASE("numa: more than 1024 CPUs") {
  SysfsTree tree;
  for (int id = 0; id < 16; ++id) {
    tree.node(id, fmt::format("{}-{}", id * 112, id * 112 + 111));
  }
  const Masks all = masks({tree, "0-1791"}, node, 16);
  REQUIRE(all.size() == 16);
  CHECK(all[15] == "1680-1791 @ 15");
}

TEST_CASE("numa: a kernel without NUMA is one node, without a memory policy") {
  SysfsTree tree;
  tree.cores("0-3", 4);
  CHECK(masks({tree, "0-7"}, node, 2) == repeated("0-7 @ ", 2));
  CHECK(masks({tree, "0-7"}, exclusive, 2) == Masks{"0-1,4-5 @ ", "2-3,6-7 @ "});
}

TEST_CASE("numa: a /sys without topology, as in some sandboxes") {
  CHECK(masks({SysfsTree{}, "0-3"}, exclusive, 2) == Masks{"0-1 @ ", "2-3 @ "});
  CHECK(masks({SysfsTree{}, "0-3"}, core_complex, 2) == repeated("0-3 @ ", 2));
  CHECK(masks({SysfsTree{}, "0-3"}, NumaPolicy::socket, 1) == Masks{"0-3 @ "});
}

TEST_CASE("numa: sockets without a number are separate nodes") {
  SysfsTree tree;
  tree.node(0, "0-3").node(1, "4-7").socket(-1, "0-7");
  CHECK(masks({tree, "0-7"}, NumaPolicy::socket, 2) == Masks{"0-3 @ 0", "4-7 @ 1"});
}

TEST_CASE("numa: contradictory or invalid files never lead outside the permitted CPUs") {
  SysfsTree tree = two_sockets();
  tree.file("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "1-2\n");
  tree.file("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "9-1\n");
  CHECK(masks({tree, "0-3"}, exclusive, 2) == Masks{"0-2 @ 0", "3 @ 0"});
  tree.file("/sys/devices/system/node/node1/cpulist", "4-99999999999999999999\n");
  CHECK(masks({tree, "0-15"}, node, 2) == repeated("0-3,8-11 @ 0", 2));
  CHECK(masks({tree, "4-7"}, node, 2)[0].starts_with("no NUMA node in /sys has a usable CPU"));
}

TEST_CASE("numa: a rank's share of its mask is divided among ranks with the same mask") {
  const auto plan = [](NumaPolicy policy, int ranks) {
    return *bind_ranks(request_of({two_sockets(), "0-15"}, policy, ranks), two_sockets().reader());
  };
  CHECK(plan(node, 2).ranks[0].owned == 8);
  CHECK(plan(node, 3).ranks[0].owned == 4);
  CHECK(plan(node, 3).ranks[2].owned == 8);
  CHECK(plan(node, 40).ranks[0].owned == 1);
  CHECK(plan(exclusive, 5).ranks[0].owned == 4);
  CHECK(plan(exclusive, 5).ranks[1].owned == 2);
  CHECK(plan(node, 3).cpus == 16);
  CHECK(plan(node, 1).cpus == 8);
}

// Runs only if selected by its tag. Prints the time, but never fails for being slow.
TEST_CASE("numa: duration, with files in memory", "[.timing]") {
  constexpr int kTimes = 100;
  const std::vector<std::pair<std::string, Job>> jobs{
      {"DGX H100", {dgx_h100(), "0-223", kDgxH100Gpus}},
      {"DGX A100", {dgx_a100(), "0-255", kDgxA100Gpus}},
      {"MI300X", {mi300x(), "0-383", kMi300xGpus}},
      {"GB200", {gb200(), "0-143", kGb200Gpus}}};
  for (const auto& [name, job] : jobs) {
    int files = 0;
    std::unordered_map<std::string, std::optional<std::string>> seen;
    const TextReader inner = job.tree.reader();
    const TextReader read = [&](const std::string& path) {
      ++files;
      const auto found = seen.find(path);
      return found == seen.end() ? seen.emplace(path, inner(path)).first->second : found->second;
    };
    for (const NumaPolicy policy : {automatic, node, NumaPolicy::socket, exclusive, core_complex}) {
      const NumaRequest request = request_of(job, policy, static_cast<int>(job.gpus.size()));
      CHECK(bind_ranks(request, read));  // fills `seen`
      files = 0;
      const TimePoint begin = steady_now();
      for (int i = 0; i < kTimes; ++i) {
        CHECK(bind_ranks(request, read));
      }
      const double each =
          std::chrono::duration<double, std::micro>(steady_now() - begin).count() / kTimes;
      fmt::print("{}, policy {}: {:.0f} us, {} files\n",
                 name,
                 static_cast<int>(policy),
                 each,
                 files / kTimes);
    }
  }
}
