// SPDX-License-Identifier: Apache-2.0
// What the fakes do when our code breaks a rule of CUDA or NCCL: one sentence, and the end of the
// program. The real libraries would hang, corrupt data or do nothing wrong until production.
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
