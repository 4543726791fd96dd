// SPDX-License-Identifier: Apache-2.0
// Errors that tests plant in this folder's code, to show that the fakes of libnccl and libcuda see
// them. In every other build planted() is false at compile time and leaves nothing behind.
#pragma once

#include <string_view>

namespace muster::collective::nccl {

#ifdef MUSTER_NCCL_PLANTED
extern std::string_view planted_error;  // the test's

[[nodiscard]] inline bool planted(std::string_view error) {
  return error == planted_error;
}
#else
[[nodiscard]] consteval bool planted(std::string_view /*error*/) {
  return false;
}
#endif

}  // namespace muster::collective::nccl
