// SPDX-License-Identifier: Apache-2.0
// PeerWatch: whether another rank has died, or somebody has aborted. Provided by the shared memory
// of a host and by the connections between hosts; looked at wherever a rank waits for others.
// Private to the library. Any thread.
#pragma once

#include "collective/error.hpp"

#include <optional>

namespace muster::collective {

class PeerWatch {
 public:
  PeerWatch() = default;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  virtual ~PeerWatch() = default;

  // Cheap: some loads.
  [[nodiscard]] virtual std::optional<Error> failure() const = 0;
  // Tells the other ranks why this one gives up.
  virtual void report(const Error& error) = 0;
};

}  // namespace muster::collective
