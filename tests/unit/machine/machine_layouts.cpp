// SPDX-License-Identifier: Apache-2.0
#include "unit/machine/machine_layouts.hpp"

#include <fmt/core.h>

namespace muster::testing {

// Two Xeon Platinum 8480C with 56 cores each, eight H100.
const Addresses kDgxH100Gpus{"0000:1b:00.0",
                             "0000:43:00.0",
                             "0000:52:00.0",
                             "0000:61:00.0",
                             "0000:9d:00.0",
                             "0000:c3:00.0",
                             "0000:d1:00.0",
                             "0000:df:00.0"};

SysfsTree dgx_h100() {
  SysfsTree tree;
  tree.node(0, "0-55,112-167").node(1, "56-111,168-223");
  tree.socket(0, "0-55,112-167").socket(1, "56-111,168-223").cores("0-111", 112);
  tree.shared_cache("0-55,112-167").shared_cache("56-111,168-223");
  for (std::size_t i = 0; i < kDgxH100Gpus.size(); ++i) {
    tree.gpu(kDgxH100Gpus[i], i < 4 ? 0 : 1);
  }
  return tree;
}

// The same without hyper-threading: CPUs from 112 on are offline.
SysfsTree dgx_h100_without_threads() {
  SysfsTree tree;
  tree.node(0, "0-55").node(1, "56-111").socket(0, "0-55").socket(1, "56-111");
  tree.cores("0-111", 0, 1);
  for (std::size_t i = 0; i < kDgxH100Gpus.size(); ++i) {
    tree.gpu(kDgxH100Gpus[i], i < 4 ? 0 : 1);
  }
  return tree;
}

// Two EPYC 7742 with four nodes each (NPS4), caches shared by four cores, eight A100 at every other
// node.
const Addresses kDgxA100Gpus{"0000:07:00.0",
                             "0000:0f:00.0",
                             "0000:47:00.0",
                             "0000:4e:00.0",
                             "0000:87:00.0",
                             "0000:90:00.0",
                             "0000:b7:00.0",
                             "0000:bd:00.0"};

SysfsTree dgx_a100() {
  SysfsTree tree;
  for (int node = 0; node < 8; ++node) {
    tree.node(
        node,
        fmt::format("{}-{},{}-{}", node * 16, node * 16 + 15, node * 16 + 128, node * 16 + 143));
  }
  tree.socket(0, "0-63,128-191").socket(1, "64-127,192-255").cores("0-127", 128);
  for (int first = 0; first < 128; first += 4) {
    tree.shared_cache(fmt::format("{}-{},{}-{}", first, first + 3, first + 128, first + 131));
  }
  const std::vector<int> nodes{3, 3, 1, 1, 7, 7, 5, 5};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    tree.gpu(kDgxA100Gpus[i], nodes[i]);
  }
  return tree;
}

// Two EPYC 9654 with 96 cores and one node each, caches shared by eight cores, eight MI300X.
const Addresses kMi300xGpus{"0000:0c:00.0",
                            "0000:22:00.0",
                            "0000:38:00.0",
                            "0000:5c:00.0",
                            "0000:9f:00.0",
                            "0000:af:00.0",
                            "0000:bf:00.0",
                            "0000:df:00.0"};

SysfsTree mi300x() {
  SysfsTree tree;
  tree.node(0, "0-95,192-287").node(1, "96-191,288-383");
  tree.socket(0, "0-95,192-287").socket(1, "96-191,288-383").cores("0-191", 192);
  for (int first = 0; first < 192; first += 8) {
    tree.shared_cache(fmt::format("{}-{},{}-{}", first, first + 7, first + 192, first + 199));
  }
  for (std::size_t i = 0; i < kMi300xGpus.size(); ++i) {
    tree.gpu(kMi300xGpus[i], i < 4 ? 0 : 1);
  }
  return tree;
}

// One EPYC 7A53 with four nodes, eight MI250X dies, not in the order of the nodes.
const Addresses kFrontierGpus{"0000:c1:00.0",
                              "0000:c6:00.0",
                              "0000:c9:00.0",
                              "0000:ce:00.0",
                              "0000:d1:00.0",
                              "0000:d6:00.0",
                              "0000:d9:00.0",
                              "0000:de:00.0"};

SysfsTree frontier() {
  SysfsTree tree;
  tree.node(0, "0-15,64-79")
      .node(1, "16-31,80-95")
      .node(2, "32-47,96-111")
      .node(3, "48-63,112-127");
  tree.socket(0, "0-127").cores("0-63", 64);
  for (int first = 0; first < 64; first += 8) {
    tree.shared_cache(fmt::format("{}-{},{}-{}", first, first + 7, first + 64, first + 71));
  }
  const std::vector<int> nodes{3, 3, 1, 1, 0, 0, 2, 2};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    tree.gpu(kFrontierGpus[i], nodes[i]);
  }
  return tree;
}

// Two Grace with 72 cores each and no hyper-threading, four Blackwell whose memory forms separate
// nodes.
const Addresses kGb200Gpus{"0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"};

SysfsTree gb200() {
  SysfsTree tree;
  tree.node(0, "0-71").node(1, "72-143");
  for (int node = 2; node < 34; ++node) {
    tree.node(node, "");
    if (node % 8 != 2) {
      tree.without_memory(node);
    }
  }
  tree.socket(0, "0-71").socket(1, "72-143").cores("0-143", 0, 1);
  tree.shared_cache("0-71").shared_cache("72-143");
  for (std::size_t i = 0; i < kGb200Gpus.size(); ++i) {
    tree.gpu(kGb200Gpus[i], i < 2 ? 0 : 1);
  }
  return tree;
}

// Two POWER9 with 20 cores of four threads each: node 8 follows node 0; the GPUs' memory is nodes
// 252 to 255.
const Addresses kPower9Gpus{"0004:04:00.0", "0004:05:00.0", "0035:03:00.0", "0035:04:00.0"};

SysfsTree power9() {
  SysfsTree tree;
  tree.node(0, "0-79").node(8, "80-159").node(252, "").node(253, "").node(254, "").node(255, "");
  tree.socket(0, "0-79").socket(8, "80-159");
  for (int first = 0; first < 160; first += 4) {
    tree.cores(std::to_string(first), 1, 4);
  }
  tree.gpu(kPower9Gpus[0], 0).gpu(kPower9Gpus[1], 0).gpu(kPower9Gpus[2], 8).gpu(kPower9Gpus[3], 8);
  return tree;
}

// Two sockets with 40 cores each, split into two nodes each (SNC2).
SysfsTree sub_numa_clusters() {
  SysfsTree tree;
  tree.node(0, "0-19,80-99").node(1, "20-39,100-119").node(2, "40-59,120-139");
  tree.node(3, "60-79,140-159").socket(0, "0-39,80-119").socket(1, "40-79,120-159");
  tree.cores("0-79", 80);
  tree.gpu("0000:17:00.0", 0).gpu("0000:65:00.0", 1).gpu("0000:ca:00.0", 3);
  return tree;
}

// A cloud instance with 208 virtual CPUs, adjacent siblings, eight GPUs.
const Addresses kCloudGpus{"0000:04:00.0",
                           "0000:05:00.0",
                           "0000:0a:00.0",
                           "0000:0b:00.0",
                           "0000:84:00.0",
                           "0000:85:00.0",
                           "0000:8a:00.0",
                           "0000:8b:00.0"};

SysfsTree cloud() {
  SysfsTree tree;
  tree.node(0, "0-103").node(1, "104-207").socket(0, "0-103").socket(1, "104-207");
  for (int first = 0; first < 208; first += 2) {
    tree.cores(std::to_string(first), 1);
  }
  for (std::size_t i = 0; i < kCloudGpus.size(); ++i) {
    tree.gpu(kCloudGpus[i], i < 4 ? 0 : 1);
  }
  return tree;
}

// Two sockets with four cores each, numbered alternately, as by some firmware.
SysfsTree alternating() {
  SysfsTree tree;
  tree.node(0, "0,2,4,6").node(1, "1,3,5,7").socket(0, "0,2,4,6").socket(1, "1,3,5,7");
  tree.cores("0-7", 0, 1).gpu("0000:3b:00.0", 0).gpu("0000:d8:00.0", 1);
  return tree;
}

// Two sockets with four cores of two threads each.
SysfsTree two_sockets() {
  SysfsTree tree;
  tree.node(0, "0-3,8-11").node(1, "4-7,12-15").socket(0, "0-3,8-11").socket(1, "4-7,12-15");
  return tree.cores("0-7", 8).shared_cache("0-3,8-11").shared_cache("4-7,12-15");
}

}  // namespace muster::testing
