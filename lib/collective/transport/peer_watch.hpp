// SPDX-License-Identifier: Apache-2.0
// PeerWatch: reports whether another rank has died or aborted. Implemented by a host's shared
// memory and by the connections between hosts. Every wait for other ranks checks it. Private to
// the library. Any thread.
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

  // Costs only a few loads.
  [[nodiscard]] virtual std::optional<Error> failure() const = 0;
  // Reports to the other ranks why this rank has failed.
  virtual void report(const Error& error) = 0;
};

}  // namespace muster::collective
