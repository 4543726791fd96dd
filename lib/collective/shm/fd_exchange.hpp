// SPDX-License-Identifier: Apache-2.0
// Passes descriptors from one process to others of the same user on the same host, over an abstract
// UNIX socket. Blocks until the deadline; one thread.
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
  // Starts to listen; takers may connect from now on.
  [[nodiscard]] static Result<FdGiver> open(const std::string& word);

  // Passes the descriptors to these ranks. Errors: timeout, with the first missing rank; what the
  // watch has seen.
  [[nodiscard]] Result<void> give(const std::vector<int>& fds,
                                  std::set<int> takers,
                                  const BootstrapContext& context) const;

 private:
  explicit FdGiver(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// Receives descriptors for this rank from the giver that opened `word`. Error: peer_failed, if the
// giver is gone.
[[nodiscard]] Result<std::vector<UniqueFd>> take_fds(const std::string& word,
                                                     int rank,
                                                     std::size_t count,
                                                     TimePoint deadline);

}  // namespace muster::collective
