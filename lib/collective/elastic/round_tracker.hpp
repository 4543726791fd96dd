// SPDX-License-Identifier: Apache-2.0
// RoundTracker: which rounds of the job have lost a rank, as far as the launcher's news tells.
// Value; one thread at a time.
#pragma once

#include "collective/error.hpp"
#include "worker/worker.hpp"

#include <cstdint>
#include <optional>

namespace muster::collective::elastic {

class RoundTracker {
 public:
  void receive(const worker::News& news);

  // The newest round; null if its epoch is not greater than `after`, or if there is no round.
  [[nodiscard]] const worker::Round* newer_than(std::optional<std::uint64_t> after) const;

  // The reason if a rank of this epoch was lost, or if a later epoch exists.
  [[nodiscard]] std::optional<Error> loss(std::uint64_t epoch) const;

 private:
  std::optional<worker::Round> newest_;
  std::optional<worker::Gone> lost_;  // of the newest epoch that has lost a rank
};

}  // namespace muster::collective::elastic
