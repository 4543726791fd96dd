// SPDX-License-Identifier: Apache-2.0
// Hands descriptors from one process of a host to the others of the same user, over a socket
// without a name in the file system. Blocks until the deadline; one thread.
#pragma once

#include "base/fd.hpp"
#include "collective/bootstrap/bootstrap.hpp"
#include "collective/error.hpp"

#include <set>
#include <string>
#include <vector>

namespace muster::collective {

class FdGiver {
 public:
  // From then on takers may come.
  [[nodiscard]] static Result<FdGiver> open(const std::string& word);

  // To these takers. Errors: timeout, with the rank of the first that did not come; what the watch
  // has seen.
  [[nodiscard]] Result<void> give(const std::vector<int>& fds,
                                  std::set<int> takers,
                                  const BootstrapContext& context) const;

 private:
  explicit FdGiver(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// From the giver who opened this word, for this rank. Error: peer_failed, if it is gone.
[[nodiscard]] Result<std::vector<UniqueFd>> take_fds(const std::string& word,
                                                     int rank,
                                                     std::size_t count,
                                                     TimePoint deadline);

}  // namespace muster::collective
