// SPDX-License-Identifier: Apache-2.0
#include "collective/elastic/round_tracker.hpp"

#include <fmt/format.h>

#include <variant>

namespace muster::collective::elastic {

// A rank that exited without an error is not replaced, so its exit ends no round.
void RoundTracker::receive(const worker::News& news) {
  if (const auto* round = std::get_if<worker::Round>(&news)) {
    newest_ = *round;
  } else if (const auto* gone = std::get_if<worker::Gone>(&news); gone != nullptr && gone->failed) {
    if (!lost_ || lost_->epoch < gone->epoch) {
      lost_ = *gone;
    }
  }
}

const worker::Round* RoundTracker::newer_than(std::optional<std::uint64_t> after) const {
  return newest_ && (!after || newest_->epoch > *after) ? &*newest_ : nullptr;
}

std::optional<Error> RoundTracker::loss(std::uint64_t epoch) const {
  const bool is_known = lost_ && lost_->epoch >= epoch;
  if (!is_known && newer_than(epoch) == nullptr) {
    return std::nullopt;
  }
  const bool is_here = is_known && lost_->epoch == epoch;
  return Error{.code = Errc::peer_failed,
               .rank = is_here ? lost_->rank : -1,
               .epoch = epoch,
               .text = is_here ? fmt::format("rank {} was lost in epoch {}", lost_->rank, epoch)
                               : fmt::format("a rank was lost in epoch {}", epoch)};
}

}  // namespace muster::collective::elastic
