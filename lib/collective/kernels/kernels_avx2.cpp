// SPDX-License-Identifier: Apache-2.0
// Compiled for CPUs with AVX2 (CMakeLists.txt). Called only on such CPUs.
#include "collective/kernels/kernel_table.hpp"

#if defined(__AVX2__) && defined(__F16C__)
#define MUSTER_VECTOR_BYTES 32
#include "collective/kernels/kernel_loops.hpp"

namespace muster::collective {

const KernelTable* avx2_kernels() {
  return &kTable;
}

}  // namespace muster::collective
#else
namespace muster::collective {

const KernelTable* avx2_kernels() {
  return nullptr;
}

}  // namespace muster::collective
#endif
