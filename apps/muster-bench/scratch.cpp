// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/scratch.hpp"

#include <stdlib.h>
#include <unistd.h>

namespace muster::bench {

Scratch::Scratch() {
  std::string name =
      access("/dev/shm", W_OK) == 0 ? "/dev/shm/muster-bench-XXXXXX" : "/tmp/muster-bench-XXXXXX";
  if (mkdtemp(name.data()) != nullptr) {
    folder_ = name;
  }
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!folder_.empty()) {
    std::filesystem::remove_all(folder_, ignored);
  }
}

}  // namespace muster::bench
