// SPDX-License-Identifier: Apache-2.0
// Prints the kernels of the library, for NVIDIA's assembler.
#include "collective/nccl/cast_kernels.hpp"

#include <cstdio>

int main() {
  std::fputs(muster::collective::nccl::cast_kernels().c_str(), stdout);
  return 0;
}
