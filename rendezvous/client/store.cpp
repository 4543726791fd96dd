// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/store.hpp"

namespace muster {

Result<void> generic_barrier(Store& store,
                             std::string_view key,
                             std::int64_t world_size,
                             Duration timeout) {
  const std::string base(key);
  const auto members = store.add(base + "/num_members", 1);
  MUSTER_RETURN_IF_ERROR(members);
  const std::string last = base + "/last_member";
  if (*members == world_size) {
    if (auto done = store.set(last, "1"); !done) {
      return done;
    }
  }
  return store.wait({last}, timeout);
}

}  // namespace muster
