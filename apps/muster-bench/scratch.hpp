// SPDX-License-Identifier: Apache-2.0
// Scratch: a folder of our own for files of one measurement, gone when it goes out of scope. In
// memory (/dev/shm) where there is such a place, so that no disk is measured. Resource type.
#pragma once

#include <filesystem>
#include <string>

namespace muster::bench {

class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_;
};

}  // namespace muster::bench
