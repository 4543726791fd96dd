// SPDX-License-Identifier: Apache-2.0
// The fake NCCL's arithmetic: all its types and operations, in rank order; narrow floats are
// computed in f32 and rounded once. Pure.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace muster::fake {

struct Reduction {
  ncclRedOp_t op = ncclSum;  // a built-in operator; ncclSum if it has a scalar
  double scalar = 1;         // multiplied first
  bool has_scalar = false;   // created by ncclRedOpCreatePreMulSum
};

[[nodiscard]] std::size_t bytes_of(ncclDataType_t type);
[[nodiscard]] const char* name_of(ncclDataType_t type);

// out[i] = reduction of parts[0][i], parts[1][i] …
void reduce(ncclDataType_t type,
            Reduction reduction,
            const std::vector<const void*>& parts,
            void* out,
            std::size_t count);

// A scalar of this type.
[[nodiscard]] double read_scalar(ncclDataType_t type, const void* scalar);

}  // namespace muster::fake
