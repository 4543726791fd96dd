// SPDX-License-Identifier: Apache-2.0
#include "collective/elastic/round_listener.hpp"

#include "base/blocked_signals.hpp"

#include <utility>

namespace muster::collective::elastic {

Result<std::unique_ptr<RoundListener>> RoundListener::open() {
  auto rounds = worker::Rounds::continuing();
  if (!rounds) {
    return std::unexpected(wrap(Errc::system, "cannot subscribe to muster", rounds.error()));
  }
  return std::unique_ptr<RoundListener>(new RoundListener(std::move(*rounds)));
}

RoundListener::RoundListener(worker::Rounds rounds) : rounds_(std::move(rounds)) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { listen(); });
}

RoundListener::~RoundListener() {
  rounds_.shut_down();
  thread_.join();
}

std::optional<worker::Round> RoundListener::wait_for_round(std::optional<std::uint64_t> after) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_closed_ || tracker_.newer_than(after) != nullptr; });
  const worker::Round* const round = tracker_.newer_than(after);
  return round == nullptr ? std::nullopt : std::optional(*round);
}

bool RoundListener::wait_for_loss(std::uint64_t epoch, Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return is_closed_ || tracker_.loss(epoch); });
  return tracker_.loss(epoch).has_value();
}

void RoundListener::enter(std::uint64_t epoch) {
  {
    const std::scoped_lock lock(mutex_);
    epoch_ = epoch;
  }
  rounds_.arrive();
}

void RoundListener::guard(Communicator& communicator) {
  const std::scoped_lock lock(mutex_);
  guarded_ = &communicator;
  abort_if_lost();
}

void RoundListener::unguard() {
  const std::scoped_lock lock(mutex_);
  guarded_ = nullptr;
}

Result<void> RoundListener::ready(std::uint64_t epoch) {
  if (!rounds_.ready(epoch)) {
    return collective::failure(Errc::system,
                               "cannot send to muster: it does not read this worker's messages");
  }
  return {};
}

std::optional<Error> RoundListener::failure() const {
  const std::scoped_lock lock(mutex_);
  return tracker_.loss(epoch_);
}

void RoundListener::listen() {
  while (!rounds_.ended()) {
    const auto news = rounds_.next(Duration::max());
    const std::scoped_lock lock(mutex_);
    if (news) {
      tracker_.receive(*news);
      abort_if_lost();
    }
    is_closed_ = rounds_.ended();
    changed_.notify_all();
  }
}

void RoundListener::abort_if_lost() {
  const auto loss = guarded_ != nullptr ? tracker_.loss(epoch_) : std::nullopt;
  if (loss) {
    guarded_->abort(loss->text);
  }
}

}  // namespace muster::collective::elastic
