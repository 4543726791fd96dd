// SPDX-License-Identifier: Apache-2.0
// RoundFilter: a round source that wraps another one and passes all calls on. Derived classes delay
// some of them. Pure; one thread.
#pragma once

#include "agent/supervisor/round_source.hpp"

#include <cstdint>
#include <string>

namespace muster {

class RoundFilter : public RoundSource {
 public:
  explicit RoundFilter(RoundSource& rounds) : rounds_(rounds) {}

  void await_round(int attempt) override { rounds_.await_round(attempt); }

  void report_failure(const WorkerFailure& failure) override { rounds_.report_failure(failure); }

  void ask_mend(const AskMend& ask) override { rounds_.ask_mend(ask); }

  void tell_ready(std::uint64_t epoch) override { rounds_.tell_ready(epoch); }

  void end_mend(const std::string& reason) override { rounds_.end_mend(reason); }

  void report_success() override { rounds_.report_success(); }

  void report_finished() override { rounds_.report_finished(); }

  void expect_round() override { rounds_.expect_round(); }

  void tell_gone() override { rounds_.tell_gone(); }

  void leave_round(const LeaveRound& asked) override { rounds_.leave_round(asked); }

  void check_lease() override { rounds_.check_lease(); }

  void close() override { rounds_.close(); }

 protected:
  [[nodiscard]] RoundSource& rounds() { return rounds_; }

 private:
  RoundSource& rounds_;
};

}  // namespace muster
