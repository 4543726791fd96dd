// SPDX-License-Identifier: Apache-2.0
#include "machine/gpu_count.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

const std::vector<Gpu> kThree{{"0000:01:00.0", "GPU-aaaa-1", "H100"},
                              {"0000:02:00.0", "GPU-aabb-2", "H100"},
                              {"0000:03:00.0", "GPU-cccc-3", "H100"}};

// The addresses of the GPUs that a list selects, by their second number.
std::string left(std::string_view list, const std::vector<Gpu>& present = kThree) {
  std::string out;
  for (const Gpu& gpu : visible_among(present, list)) {
    out += gpu.address.empty() ? "?" : gpu.address.substr(6, 1);
  }
  return out;
}

std::string addresses(const VisibleGpus& seen) {
  std::string out;
  for (const Gpu& gpu : seen.gpus) {
    out += gpu.address + " ";
  }
  return out;
}

Environ with(std::string_view name, std::string_view value) {
  Environ environ;
  environ.set(name, value);
  return environ;
}

}  // namespace

TEST_CASE("gpu count: parses numbers like CUDA") {
  struct Row {
    std::string_view list;
    std::string_view left;
  };

  for (const Row& row : {Row{"0,1,2", "123"},
                         Row{"2,0", "31"},
                         Row{"", ""},
                         Row{"0,2,-1,1", "13"},
                         Row{"-1", ""},
                         Row{"1gpu2,2ampere", "23"},
                         Row{"+2", "3"},
                         Row{" 0 , 1 ", "12"},
                         Row{"0,0", ""},
                         Row{"0,9,1", "1"},
                         Row{"0,9,0", ""},
                         Row{"0,x,1", "1"},
                         Row{"99999999999999999999", ""},
                         Row{"NoDevFiles", ""}}) {
    INFO(row.list);
    CHECK(left(row.list) == row.left);
  }
}

TEST_CASE("gpu count: UUIDs match by unique prefix") {
  CHECK(left("GPU-c,GPU-aaaa") == "31");
  CHECK(left("GPU-aa").empty());
  CHECK(left("GPU-c,GPU-zz,GPU-aaaa") == "3");
  CHECK(left("GPU-c,GPU-cccc").empty());
  CHECK(left("GPU-c,0") == "3");
  CHECK(left("GPU-x,GPU-y", {{}, {}, {}}) == "??");
}

TEST_CASE("gpu count: a list of slices selects one; only older names identify its GPU") {
  CHECK(left("MIG-1,MIG-2") == "?");
  CHECK(left("MIG-GPU-aabb-2/1/0,MIG-GPU-aaaa-1/1/0") == "2");
  CHECK(left("MIG-1", {kThree[0]}) == "1");
  CHECK(left("MIG-1", {}).empty());
}

TEST_CASE("gpu count: CUDA_VISIBLE_DEVICES limits the count and is named as the reason") {
  const GpuDevices devices{.nvidia = kThree};
  const VisibleGpus seen = visible_gpus(devices, with("CUDA_VISIBLE_DEVICES", "2,1"));
  CHECK(seen.reason == "3 NVIDIA GPUs in /dev, 2 visible by CUDA_VISIBLE_DEVICES");
  CHECK(addresses(seen) == "0000:03:00.0 0000:02:00.0 ");
  CHECK(visible_gpus(devices, with("CUDA_VISIBLE_DEVICES", "")).gpus.empty());
  CHECK(visible_gpus(devices, with("HIP_VISIBLE_DEVICES", "0")).gpus.size() == 3);
  CHECK(visible_gpus({}, {}).reason == "no GPU in /dev/nvidia* or /sys/class/kfd");
}

TEST_CASE("gpu count: CUDA's own order of different models differs from the kernel's") {
  GpuDevices devices{.nvidia = kThree};
  devices.nvidia[1].model = "T400";
  CHECK(addresses(visible_gpus(devices, {})) == "   ");
  CHECK(addresses(visible_gpus(devices, with("CUDA_DEVICE_ORDER", "PCI_BUS_ID"))) ==
        "0000:01:00.0 0000:02:00.0 0000:03:00.0 ");
  CHECK(addresses(visible_gpus(devices, with("CUDA_VISIBLE_DEVICES", "GPU-aabb"))) ==
        "0000:02:00.0 ");
}

TEST_CASE("gpu count: on AMD the runtime's variable precedes HIP's, of which CUDA's is an alias") {
  const GpuDevices devices{.amd = {{"0000:0c:00.0", "GPU-a1", ""},
                                   {"0000:22:00.0", "GPU-a2", ""},
                                   {"0000:38:00.0", "GPU-a3", ""},
                                   {"0000:5c:00.0", "GPU-a4", ""}}};
  Environ env = with("ROCR_VISIBLE_DEVICES", "2,3");
  CHECK(addresses(visible_gpus(devices, env)) == "0000:38:00.0 0000:5c:00.0 ");
  env.set("HIP_VISIBLE_DEVICES", "1");
  CHECK(addresses(visible_gpus(devices, env)) == "0000:5c:00.0 ");
  env.set("HIP_VISIBLE_DEVICES", "2,3");
  CHECK(visible_gpus(devices, env).gpus.empty());
  CHECK(visible_gpus(devices, with("CUDA_VISIBLE_DEVICES", "0,1,2")).gpus.size() == 3);
  CHECK(addresses(visible_gpus(devices, with("ROCR_VISIBLE_DEVICES", "GPU-a4,GPU-a1"))) ==
        "0000:5c:00.0 0000:0c:00.0 ");
}
