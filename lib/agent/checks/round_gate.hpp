// SPDX-License-Identifier: Apache-2.0
// RoundGate: for --check. Stands between the round source and the supervisor, and holds a round
// back until its nodes have been checked. If the round ends before, the supervisor never receives
// it. Used by the agent. Pure except for its site; one thread.
#pragma once

#include "agent/supervisor/round_source.hpp"

#include <optional>
#include <utility>

namespace muster {

class GateSite {
 public:
  virtual ~GateSite() = default;
  [[nodiscard]] virtual bool needs_check() = 0;
  // Answered with RoundGate::open or RoundGate::leave, immediately or later.
  virtual void begin_check() = 0;
  // The round has ended.
  virtual void end_check() = 0;
  // False if this node has been asked to leave during the check.
  [[nodiscard]] virtual bool may_start() = 0;
};

class RoundGate final : public RoundUser {
 public:
  // Without a site, passes all calls on.
  explicit RoundGate(RoundUser& user) : user_(user) {}

  void use(GateSite& site, RoundSource& rounds) {
    site_ = &site;
    rounds_ = &rounds;
  }

  // Starts the workers of the held round.
  void open() {
    auto round = std::exchange(held_, std::nullopt);
    if (round && site_->may_start()) {
      user_.run_round(std::move(*round));
    }
  }

  // This node leaves the job because of `why`, and has run no workers of the held round.
  void leave(const Error& why) {
    held_.reset();
    why_ = why;
    rounds_->leave_round({why.message});
    rounds_->tell_gone();
  }

  // The other nodes have not released this node in time.
  void close() { handle(RoundClosed{}); }

  // RoundUser
  void run_round(RoundToRun round) override {
    if (site_ == nullptr || !round.specs || !site_->needs_check()) {
      user_.run_round(std::move(round));
      return;
    }
    held_ = std::move(round);
    site_->begin_check();
  }

  void run_mend(MendToRun mend) override { user_.run_mend(std::move(mend)); }

  void handle(const SupervisorEvent& event) override {
    const auto* closed = std::get_if<RoundClosed>(&event);
    const bool ends = closed != nullptr || std::holds_alternative<RegroupNotice>(event) ||
                      std::holds_alternative<Fenced>(event);
    if (held_ && ends) {
      held_.reset();
      site_->end_check();
      rounds_->tell_gone();
    }
    user_.handle(closed != nullptr && why_ ? as_left(*closed) : event);
  }

  [[nodiscard]] int starts() const override { return user_.starts(); }

 private:
  [[nodiscard]] SupervisorEvent as_left(RoundClosed closed) const {
    closed.outcome = Outcome::not_started;
    closed.error = why_;
    return closed;
  }

  RoundUser& user_;
  GateSite* site_ = nullptr;
  RoundSource* rounds_ = nullptr;
  std::optional<RoundToRun> held_;
  std::optional<Error> why_;  // this node leaves
};

}  // namespace muster
