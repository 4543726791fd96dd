// SPDX-License-Identifier: Apache-2.0
#include "host/gpu_count.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

const std::vector<std::string> kUuids{"GPU-aaaa-1", "GPU-aabb-2", "GPU-cccc-3"};

Environ with(std::string_view name, std::string_view value) {
  Environ environ;
  environ.set(name, value);
  return environ;
}

}  // namespace

TEST_CASE("gpu count: numbers are read as CUDA reads them") {
  struct Row {
    std::string_view list;
    int count;
  };

  for (const Row& row : {Row{"0,1,2,3", 4},
                         Row{"", 0},
                         Row{"0,2,-1,1", 2},
                         Row{"-1", 0},
                         Row{"1gpu2,2ampere", 2},
                         Row{"+3", 1},
                         Row{" 0 , 1 ", 2},
                         Row{"0,0", 0},
                         Row{"0,9,1", 1},
                         Row{"0,x,1", 1},
                         Row{"NoDevFiles", 0}}) {
    INFO(row.list);
    CHECK(visible_count(row.list, 4, {}) == row.count);
  }
}

TEST_CASE("gpu count: UUIDs count by unique prefix, and a slice list gives one") {
  CHECK(visible_count("GPU-aaaa,GPU-c", 3, kUuids) == 2);
  CHECK(visible_count("GPU-aa", 3, kUuids) == 0);
  CHECK(visible_count("GPU-c,GPU-zz,GPU-aaaa", 3, kUuids) == 1);
  CHECK(visible_count("GPU-c,GPU-cccc", 3, kUuids) == 0);
  CHECK(visible_count("GPU-x,GPU-y", 3, {}) == 2);
  CHECK(visible_count("MIG-1,MIG-2", 3, kUuids) == 1);
}

TEST_CASE("gpu count: the lesser of what is listed and what can be opened") {
  CHECK(count_gpus({.nvidia_proc = 8, .nvidia_nodes = 2}, {}).count == 2);
  CHECK(count_gpus({.nvidia_proc = 2, .nvidia_nodes = 8}, {}).count == 2);
  CHECK(count_gpus({.nvidia_proc = 0, .nvidia_nodes = 3}, {}).count == 3);
  CHECK(count_gpus({.nvidia_proc = 8, .nvidia_nodes = 0}, {}).count == 0);
  CHECK(count_gpus({}, {}) == Count{0, "no GPU in /dev/nvidia* or /sys/class/kfd"});
}

TEST_CASE("gpu count: CUDA_VISIBLE_DEVICES bounds it and is named as the reason") {
  const GpuDevices devices{.nvidia_proc = 4, .nvidia_nodes = 4};
  const Count count = count_gpus(devices, with("CUDA_VISIBLE_DEVICES", "2,3"));
  CHECK(count == Count{2, "4 NVIDIA GPUs in /dev, 2 visible by CUDA_VISIBLE_DEVICES"});
  CHECK(count_gpus(devices, with("CUDA_VISIBLE_DEVICES", "")).count == 0);
}

TEST_CASE("gpu count: on AMD the runtime's variable comes before HIP's, whose alias is CUDA's") {
  const GpuDevices devices{.amd = 4};
  Environ env = with("ROCR_VISIBLE_DEVICES", "2,3");
  CHECK(count_gpus(devices, env).count == 2);
  env.set("HIP_VISIBLE_DEVICES", "0");
  CHECK(count_gpus(devices, env).count == 1);
  env.set("HIP_VISIBLE_DEVICES", "2,3");
  CHECK(count_gpus(devices, env).count == 0);
  CHECK(count_gpus(devices, with("CUDA_VISIBLE_DEVICES", "0,1,2")).count == 3);
}
