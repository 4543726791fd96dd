// SPDX-License-Identifier: Apache-2.0
// WarmRounds: wraps a round source and ensures that the zygote is ready before a round begins. It
// delays the request for the first round and, in later rounds, the report that the last workers
// have exited. Without a zygote it only forwards calls. Pure except for its site.
#pragma once

#include "agent/rounds/round_filter.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "process/warm/zygote_observer.hpp"

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace muster {

// Workers that take longer than this to stop may be restarted with files that were changed after
// the zygote was checked, so it is checked again.
inline constexpr Duration kCheckValid = std::chrono::seconds(1);

class WarmSite {
 public:
  virtual ~WarmSite() = default;
  // Answered with on_zygote_ready or on_zygote_lost, immediately or later.
  virtual void prepare_zygote(ZygoteObserver& observer) = 0;
  virtual TimePoint now() = 0;
  virtual void warn(const std::string& text) = 0;
  virtual void inform(const std::string& text) = 0;
  // Called before the first round if the job cannot start.
  virtual void fail(const Error& error) = 0;
};

class WarmRounds final : public RoundFilter, public ZygoteObserver {
 public:
  WarmRounds(RoundSource& rounds, WarmSite& site) : RoundFilter(rounds), site_(site) {}

  // Calls `begin` when the zygote is ready or has failed.
  void when_ready(std::function<void()> begin) {
    begin_ = std::move(begin);
    ask();
  }

  void await_round(int attempt) override {
    awaited_ = attempt;
    go_on();
  }

  // Prepares the zygote again for each later round, because packages may have been reinstalled.
  // This takes 12 ms for PyTorch's files and runs beside the exit of the workers.
  void expect_round() override {
    checked_at_ = site_.now();
    ask();
  }

  void tell_gone() override {
    is_gone_ = true;
    const auto checked = std::exchange(checked_at_, std::nullopt);
    if (checked && site_.now() - *checked < kCheckValid) {
      go_on();
    } else {
      ask();
    }
  }

  void on_zygote_ready() override {
    is_asking_ = false;
    go_on();
  }

  void on_zygote_replaced(const std::string& why) override {
    site_.inform("--warm: importing the modules again: " + why);
  }

  void on_zygote_lost(const std::string& why) override {
    is_asking_ = false;
    if (!is_lost_) {
      is_lost_ = true;
      site_.warn("--warm: workers are started cold: " + why);
    }
    go_on();
  }

  // After the first round, an unknown module means that the module has been removed. The workers
  // then report the error themselves.
  void on_unknown_module(const std::string& what) override {
    if (!begin_) {
      on_zygote_lost(what);
      return;
    }
    is_asking_ = false;
    is_lost_ = true;
    begin_ = nullptr;
    site_.fail(Error{Errc::usage, "--warm: " + what});
  }

  // Cancels the delayed calls, because the job may end before the next round.
  void leave_round(const LeaveRound& asked) override {
    begin_ = nullptr;
    awaited_.reset();
    rounds().leave_round(asked);
  }

  void close() override {
    begin_ = nullptr;
    is_gone_ = false;
    awaited_.reset();
    rounds().close();
  }

 private:
  void ask() {
    if (is_lost_) {
      go_on();
      return;
    }
    is_asking_ = true;
    site_.prepare_zygote(*this);
  }

  // Each of these calls may trigger the next one before it returns.
  void go_on() {
    if (is_asking_) {
      return;
    }
    if (const auto begin = std::exchange(begin_, nullptr)) {
      begin();
    }
    if (std::exchange(is_gone_, false)) {
      rounds().tell_gone();
    }
    if (const auto attempt = std::exchange(awaited_, std::nullopt)) {
      rounds().await_round(*attempt);
    }
  }

  WarmSite& site_;
  bool is_asking_ = false;  // waiting for the zygote; all further steps wait too
  bool is_lost_ = false;
  std::function<void()> begin_;
  std::optional<TimePoint> checked_at_;  // the begin of the check for the next round
  bool is_gone_ = false;                 // all processes of the last round have exited
  std::optional<int> awaited_;           // argument for the delayed await_round()
};

}  // namespace muster
