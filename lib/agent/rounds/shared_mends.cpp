// SPDX-License-Identifier: Apache-2.0
// SharedRounds while failed ranks are replaced and the round's other workers continue to run
// (--restart=rank). The coordinator decides (rendezvous/round/leader/mending.cpp).
#include "agent/rounds/shared_rounds.hpp"
#include "base/clock.hpp"
#include "base/printable.hpp"

#include <fmt/core.h>

#include <utility>

namespace muster {

void SharedRounds::ask_mend(const AskMend& ask) {
  if (ask.local_ranks.size() > kMaxMendRanks) {
    user_.handle(MendRefused{
        ask.number, fmt::format("{} ranks of this node have failed", ask.local_ranks.size())});
    return;
  }
  LackingHere lacks{.message = {}, .seen_at = steady_now()};
  Lacking& message = lacks.message;
  message.number = static_cast<std::uint64_t>(ask.number);
  for (const int local_rank : ask.local_ranks) {
    message.ranks.push_back(current_.rank_first + local_rank);
  }
  message.holds_state = ask.holds_state;
  message.out_of_memory = ask.cause.out_of_memory;
  message.tells_step = ask.step.has_value();
  message.step = ask.step.value_or(0);
  message.cause = failed_message(ask.cause);
  node_->tell(std::move(lacks));
}

void SharedRounds::tell_ready(std::uint64_t epoch) {
  node_->tell(MendedHere{epoch});
}

void SharedRounds::end_mend(const std::string& reason) {
  LackingHere lacks{.message = {}, .seen_at = steady_now()};
  lacks.message.obstacle = reason;
  node_->tell(std::move(lacks));
}

void SharedRounds::run_mend(const RunMend& run) {
  current_.epoch = run.mends.epoch;
  events_.set_round(current_.epoch);
  auto mend = mend_to_run(run);
  if (!mend) {
    user_.handle(MendRefused{static_cast<int>(run.number), mend.error().message});
    return;
  }
  mend->last = run.mends.restarts >= setup_.config.max_restarts;
  tell_mend(run);
  user_.run_mend(std::move(*mend));
}

Result<MendToRun> SharedRounds::mend_to_run(const RunMend& run) {
  MendToRun mend{static_cast<int>(run.number), current_.epoch, {}};
  if (run.number == 0) {
    return mend;
  }
  std::vector<int> local_ranks;
  for (const int rank : run.ranks) {
    local_ranks.push_back(rank - current_.rank_first);
  }
  auto specs = run_folder_.prepare_mend(current_, local_ranks);
  MUSTER_RETURN_IF_ERROR(specs);
  mend.specs = std::move(*specs);
  return mend;
}

void SharedRounds::tell_mend(const RunMend& run) {
  const int local_rank = run.cause - current_.rank_first;
  const bool is_here = local_rank >= 0 && local_rank < current_.local_world_size;
  event::RestartDecided restart{run.cause, is_here ? local_rank : -1};
  restart.restart = run.mends.restarts;
  restart.restarts_left = setup_.config.max_restarts - run.mends.restarts;
  restart.text = printable(run.reason, kNodeTextMax);
  restart.replaced = run.ranks;
  events_.tell(std::move(restart));
}

void SharedRounds::refuse_mend(const RefuseMend& refused) {
  user_.handle(
      MendRefused{static_cast<int>(refused.number), printable(refused.reason, kNodeTextMax)});
}

}  // namespace muster
