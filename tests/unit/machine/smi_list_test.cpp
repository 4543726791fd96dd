// SPDX-License-Identifier: Apache-2.0
#include "machine/smi_list.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("smi list: GPUs and the slices of each") {
  CHECK(parse_smi_list("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-48aeb943-9458)\n"
                       "  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d)\n"
                       "  MIG 1g.5gb      Device  1: (UUID: MIG-GPU-48aeb943-9458/11/0)\n"
                       "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-ec30a28b-9a54)\n") ==
        std::vector<SmiGpu>{{"NVIDIA A100-SXM4-40GB",
                             "GPU-48aeb943-9458",
                             {"MIG-c7384736-a75d", "MIG-GPU-48aeb943-9458/11/0"}},
                            {"NVIDIA A100-SXM4-40GB", "GPU-ec30a28b-9a54", {}}});
}

TEST_CASE("smi list: rejects text that is not such a list") {
  for (const char* text : {"",
                           "NVIDIA-SMI has failed because it couldn't communicate with the driver",
                           "GPU 0: (UUID: )\n",
                           "GPU 0: x (UUID: GPU-a,b)\n",
                           "GPU 0: x (UUID: GPU-",
                           "GPU 0: x (UUID: MIG-a)\n",
                           "  MIG 1g.5gb Device 0: (UUID: MIG-a)\n"}) {
    INFO(text);
    CHECK(parse_smi_list(text).size() <= 1);
    CHECK((parse_smi_list(text).empty() || parse_smi_list(text)[0].uuid == "GPU-"));
  }
}
