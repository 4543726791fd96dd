// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator agree on NCCL's unique id through the store. Each rank publishes
// its NCCL version. Rank 0 compares the versions and publishes one reply for all ranks: an id or
// an error. So a mismatch is reported before anything starts, instead of causing a hang. Blocks;
// one thread at a time.
#pragma once

#include "base/time.hpp"
#include "collective/nccl/nccl_messages.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster {
class Store;
}

namespace muster::collective::nccl {

struct BootstrapContext {
  Store* store = nullptr;  // null for a single rank
  std::string prefix;      // ends with '/'
  Speaker speaker;
  std::string host;  // for messages
  Duration timeout{};
  std::string settings = {};  // must be equal on all ranks; text without "; "
};

// Errors: mismatch (versions, settings), timeout (names the missing ranks), store, nccl.
[[nodiscard]] Result<ncclUniqueId> agree_on_id(const BootstrapContext& context,
                                               const NcclLibrary& library);

// Returns an error text if the ranks' reports ("22809 2.28.9 (/path) on host; settings") contain
// different versions or settings. Pure.
[[nodiscard]] std::optional<std::string> compare_versions(const std::vector<std::string>& reports);

}  // namespace muster::collective::nccl
