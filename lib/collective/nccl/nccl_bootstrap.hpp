// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator agree on NCCL's unique id, over the store: each says which NCCL
// it has, rank 0 compares and answers with an id or with a message, the same for all. So a
// mismatch is text before anything is started, not a hang. Blocking, one thread at a time.
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
  Store* store = nullptr;  // null: one rank alone
  std::string prefix;      // ends with '/'
  Speaker speaker;
  std::string host;  // for messages
  Duration timeout{};
  std::string settings = {};  // that all ranks must have alike, as text without "; "
};

// Errors: mismatch (versions, settings), timeout (who has not come), store, nccl.
[[nodiscard]] Result<ncclUniqueId> agree_on_id(const BootstrapContext& context,
                                               const NcclLibrary& library);

// A message if the ranks' reports ("22809 2.28.9 (/path) on host; settings") name several versions
// or settings. Pure.
[[nodiscard]] std::optional<std::string> compare_versions(const std::vector<std::string>& reports);

}  // namespace muster::collective::nccl
