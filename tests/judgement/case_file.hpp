// SPDX-License-Identifier: Apache-2.0
// FailureCase: a labelled failure of a real program, from one file of the corpus (README.md).
#pragma once

#include "agent/failures/failure.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct FailureCase {
  std::string name;
  int world_size = 1;
  std::vector<std::vector<WorkerFailure>> rounds;  // the first failure of each round first
  std::vector<std::string> kernel_log;             // of the last round
  std::string verdict;                             // the label
  std::string cause;
};

// Fails with the file's name and the field that is missing or invalid.
[[nodiscard]] Result<FailureCase> read_case(const std::string& path);

}  // namespace muster
