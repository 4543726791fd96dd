// SPDX-License-Identifier: Apache-2.0
#define MUSTER_VECTOR_BYTES 16
#include "collective/kernels/kernel_loops.hpp"

namespace muster::collective {

const KernelTable* portable_kernels() {
  return &kTable;
}

}  // namespace muster::collective
