// SPDX-License-Identifier: Apache-2.0
// Private to StoreCore's source files: the turn that handles a request, and the text of a refusal.
#pragma once

#include "rendezvous/store/store_core.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct StoreCore::Turn {
  SessionId session;
  std::string& reply;
  std::vector<Push>& pushes;
  Served served = Served::wholly;
};

inline std::unexpected<Error> refused(std::string_view what,
                                      std::uint64_t bytes,
                                      std::uint64_t limit) {
  return failure(Errc::protocol,
                 std::string(what) + " of " + std::to_string(bytes) + " bytes; the limit is " +
                     std::to_string(limit));
}

}  // namespace muster
