// SPDX-License-Identifier: Apache-2.0
// muster-cuda-misuse NAME: see misuse.hpp. Used by misuse_test.cpp.
#include "unit/fakes_cuda/misuse.hpp"

#include <cstdio>

#include <sys/resource.h>

int main(int argc, char** argv) {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const auto found = muster::testing::misuses().find(argc > 1 ? argv[1] : "");
  if (found == muster::testing::misuses().end()) {
    static_cast<void>(std::fputs("muster-cuda-misuse: no such misuse\n", stderr));
    return 2;
  }
  found->second();
  return 0;
}
