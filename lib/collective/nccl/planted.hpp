// SPDX-License-Identifier: Apache-2.0
// Errors that tests inject into the code in this directory, to verify that the fake libnccl and
// libcuda detect them. In all other builds planted() is false at compile time and generates no
// code.
#pragma once

#include <string_view>

namespace muster::collective::nccl {

#ifdef MUSTER_NCCL_PLANTED
extern std::string_view planted_error;  // set by the test

[[nodiscard]] inline bool planted(std::string_view error) {
  return error == planted_error;
}
#else
[[nodiscard]] consteval bool planted(std::string_view /*error*/) {
  return false;
}
#endif

}  // namespace muster::collective::nccl
