// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/straggler_watch.hpp"

#include "base/clock.hpp"
#include "process/run/linux_runner.hpp"
#include "straggler/wait_reader.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster {
namespace {

// True for job control signals, because they only pause the workers.
bool only_pauses(int signo) {
  return signo == SIGTSTP || signo == SIGSTOP || signo == SIGCONT;
}

}  // namespace

StragglerWatch::StragglerWatch(asio::io_context& loop, StragglerWatchParts parts)
    : parts_(parts), timer_(loop) {}

// -- running workers --------------------------------------------------------------------------

void StragglerWatch::take(const JobEvent& event) {
  if (const auto* begun = std::get_if<event::RoundBegun>(&event.what)) {
    begin_round(*begun);
  } else if (const auto* started = std::get_if<event::WorkerStarted>(&event.what)) {
    worker_started(*started);
  } else if (const auto* ended = std::get_if<event::WorkerEnded>(&event.what)) {
    ranks_.erase(ended->exit.pid);
    if (!ended->exit.status.success() || ranks_.empty()) {
      pause();  // until a replacement runs
    }
  } else if (const auto* signalled = std::get_if<event::WorkersSignalled>(&event.what)) {
    if (!only_pauses(signalled->signo)) {
      stop();
    }
  } else if (std::holds_alternative<event::WorkersKilled>(event.what)) {
    stop();
  }
}

void StragglerWatch::begin_round(const event::RoundBegun& begun) {
  stop();
  local_ranks_.clear();
  expected_ = static_cast<std::size_t>(begun.assignment.local_world_size);
  world_size_ = begun.assignment.world_size;
  is_shared_ = parts_.others != nullptr && begun.nodes.size() > 1;
  RoundStatus round;
  int rank = 0;
  for (const RoundNode& node : begun.nodes) {
    round.nodes.push_back({node.name, node.address, rank, node.workers});
    rank += node.workers;
  }
  labels_.clear();
  const std::vector<std::string> labels = node_labels(round);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels_[round.nodes[i].rank_first] = labels[i];
  }
}

void StragglerWatch::worker_started(const event::WorkerStarted& started) {
  ranks_[started.pid] = started.rank;
  local_ranks_[started.rank] = started.local_rank;
  // A single worker does not wait for any other.
  if (ranks_.size() == expected_ && world_size_ > 1) {
    begun_ = steady_now();
    look_later();
  }
}

void StragglerWatch::pause() {
  timer_.cancel();
  core_.begin();
  over_ = heard_of_;
  waited_.clear();
}

void StragglerWatch::stop() {
  pause();
  ranks_.clear();
}

// -- sampling ---------------------------------------------------------------------------------

Duration StragglerWatch::look_after() const {
  const bool is_large = is_shared_ && world_size_ > straggler::kPromptRanks;
  return is_large ? straggler::kLookMax : core_.look_after(steady_now() - begun_);
}

void StragglerWatch::look_later() {
  timer_.expires_after(look_after());
  timer_.async_wait([this](const std::error_code& error) {
    if (!error && !ranks_.empty()) {
      look();
      look_later();
    }
  });
}

void StragglerWatch::look() {
  const std::vector<int> recorders = parts_.runner.flight_recorders();
  if (recorders.empty()) {
    return;
  }
  const auto seen = read(recorders);
  std::vector<straggler::StragglerEffect> effects;
  core_.looked(steady_now(), seen, effects);
  if (is_shared_) {
    tell_others(seen);
    return;
  }
  for (straggler::StragglerEffect& effect : effects) {
    if (auto* named = std::get_if<straggler::Named>(&effect)) {
      straggler::refine(recorders, ranks_, named->slow);
    }
    std::visit([this](auto& told) { parts_.events.tell(std::move(told)); }, effect);
  }
}

std::vector<straggler::RankWaits> StragglerWatch::read(const std::vector<int>& recorders) {
  auto seen = straggler::read_waits(recorders, ranks_);
  const auto steps = parts_.channel.steps();
  waited_.clear();
  for (straggler::RankWaits& rank : seen) {
    const auto at = static_cast<std::size_t>(local_ranks_[rank.rank]);
    rank.step = at < steps.size() ? steps[at] : std::nullopt;
    for (const straggler::GroupWaits& group : rank.groups) {
      waited_[rank.rank] += std::chrono::duration<double>(group.waited).count();
    }
  }
  return seen;
}

std::vector<std::optional<WaitStatus>> StragglerWatch::waits() const {
  std::vector<std::optional<WaitStatus>> out(local_ranks_.size());
  const auto shares = core_.shares();
  for (const auto& [rank, local_rank] : local_ranks_) {
    const auto share = shares.find(rank);
    const auto waited = waited_.find(rank);
    if (share != shares.end() && waited != waited_.end() &&
        static_cast<std::size_t>(local_rank) < out.size()) {
      out[static_cast<std::size_t>(local_rank)] = WaitStatus{share->second, waited->second};
    }
  }
  return out;
}

}  // namespace muster
