// SPDX-License-Identifier: Apache-2.0
// Passes descriptors from one process to other processes of the same user on the same host, over
// an abstract UNIX socket. Blocks until the deadline; one thread.
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
  // Starts listening; receivers may connect once this returns.
  [[nodiscard]] static Result<FdGiver> open(const std::string& word);

  // Passes the descriptors to these ranks. Errors: timeout, with the first missing rank; any
  // failure that the watch has detected.
  [[nodiscard]] Result<void> give(const std::vector<int>& fds,
                                  std::set<int> takers,
                                  const BootstrapContext& context) const;

 private:
  explicit FdGiver(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// Receives descriptors for this rank from the giver that opened `word`. Error: peer_failed, if the
// giver has died or closed its socket.
[[nodiscard]] Result<std::vector<UniqueFd>> take_fds(const std::string& word,
                                                     int rank,
                                                     std::size_t count,
                                                     TimePoint deadline);

}  // namespace muster::collective
