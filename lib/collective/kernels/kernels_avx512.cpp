// SPDX-License-Identifier: Apache-2.0
// Compiled for CPUs with AVX-512 (CMakeLists.txt). Called only on such CPUs.
#include "collective/kernels/kernel_table.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define MUSTER_VECTOR_BYTES 64
#include "collective/kernels/kernel_loops.hpp"

namespace muster::collective {

const KernelTable* avx512_kernels() {
  return &kTable;
}

}  // namespace muster::collective
#else
namespace muster::collective {

const KernelTable* avx512_kernels() {
  return nullptr;
}

}  // namespace muster::collective
#endif
