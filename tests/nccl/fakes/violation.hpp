// SPDX-License-Identifier: Apache-2.0
// The reaction of the fakes if our code breaks a rule of CUDA or NCCL: they print one sentence and
// terminate the program. The real libraries would hang, corrupt data or fail only in production.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace muster::fake {

[[noreturn]] inline void violation(const std::string& sentence) {
  std::fprintf(stderr, "fake: broken rule: %s\n", sentence.c_str());
  std::fflush(stderr);
  std::abort();
}

inline void require(bool holds, const char* sentence) {
  if (!holds) {
    violation(sentence);
  }
}

}  // namespace muster::fake
