// SPDX-License-Identifier: Apache-2.0
// Hands descriptors from one process of a host to the others of the same user, over a socket
// without a name in the file system. Blocks until the deadline; one thread.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "collective/error.hpp"

#include <string>
#include <vector>

namespace muster::collective {

class FdGiver {
 public:
  // From then on takers may come.
  [[nodiscard]] static Result<FdGiver> open(const std::string& word);

  // To so many takers. Error: timeout, with how many did not come.
  [[nodiscard]] Result<void> give(const std::vector<int>& fds,
                                  int takers,
                                  TimePoint deadline) const;

 private:
  explicit FdGiver(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// From the giver who opened this word.
[[nodiscard]] Result<std::vector<UniqueFd>> take_fds(const std::string& word,
                                                     std::size_t count,
                                                     TimePoint deadline);

}  // namespace muster::collective
