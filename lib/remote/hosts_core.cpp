// SPDX-License-Identifier: Apache-2.0
#include "remote/hosts_core.hpp"

#include "base/check.hpp"
#include "base/plural.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster {
namespace {

using hosts_effect::CloseAll;
using hosts_effect::Finish;
using hosts_effect::PassSignal;
using hosts_effect::Say;
using hosts_effect::StartAll;

constexpr int kUnreachable = 69;  // as in agent/failures/job_result
constexpr int kSignalBase = 128;

bool ends_the_job(int signo) {
  return signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
}

}  // namespace

HostsCore::HostsCore(HostsCoreSettings settings, TimePoint now)
    : settings_(std::move(settings)),
      states_(settings_.names.size(), State::expected),
      trouble_(settings_.names.size()),
      reach_end_(now + settings_.retry + kReachTimeout),
      deadline_(now + kReachNotice) {
  MUSTER_CHECK(!states_.empty());
}

std::size_t HostsCore::count(State state) const {
  return static_cast<std::size_t>(std::ranges::count(states_, state));
}

std::string HostsCore::names_of(State state) const {
  std::vector<std::string> names;
  std::size_t more = 0;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] == state && names.size() < kNamesShown) {
      names.push_back(settings_.names[i]);
    } else if (states_[i] == state) {
      ++more;
    }
  }
  return join(names, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

void HostsCore::hello(TimePoint now,
                      std::size_t host,
                      const HelloMessage& message,
                      HostsEffects& out) {
  MUSTER_CHECK(host < states_.size());
  if (phase_ != Phase::reaching || states_[host] != State::expected) {
    return;
  }
  if (message.version != settings_.version) {
    lost(now,
         host,
         fmt::format("{} has muster {}, but this host has {}. Use --rsh-muster=PATH to select "
                     "a different binary",
                     settings_.names[host],
                     message.version,
                     settings_.version),
         out);
    return;
  }
  states_[host] = State::here;
  look_at_answers(now, out);
}

void HostsCore::lost(TimePoint now, std::size_t host, const std::string& why, HostsEffects& out) {
  MUSTER_CHECK(host < states_.size());
  const bool matters = states_[host] == State::expected || states_[host] == State::here;
  if (!matters || phase_ > Phase::running) {
    return;
  }
  states_[host] = State::lost;
  if (phase_ == Phase::running) {
    lose_running(now, why, out);
    return;
  }
  add_unreached(why);
  reach_end_ = std::min(reach_end_, now + kMoreFailures);
  look_at_answers(now, out);
}

// No launcher is started until all hosts have answered, so that a job never runs with fewer hosts
// than requested.
void HostsCore::look_at_answers(TimePoint now, HostsEffects& out) {
  if (count(State::expected) > 0) {
    deadline_ = noticed_ ? reach_end_ : std::min(reach_end_, *deadline_);
    return;
  }
  if (!unreached_.empty()) {
    say_unreached(out);
    close(now, kUnreachable, out);
    return;
  }
  phase_ = Phase::running;
  deadline_.reset();
  out.emplace_back(StartAll{});
}

void HostsCore::retrying(std::size_t host, const std::string& why) {
  MUSTER_CHECK(host < states_.size());
  trouble_[host] = why;
}

// If a parent in the launch tree fails, all hosts behind it fail for the same reason, so the reason
// is reported only once.
void HostsCore::add_unreached(const std::string& why) {
  if (std::ranges::find(unreached_, why) == unreached_.end()) {
    unreached_.push_back(why);
  }
}

void HostsCore::say_unreached(HostsEffects& out) {
  const std::size_t shown = std::min(unreached_.size(), kNamesShown);
  for (std::size_t i = 0; i < shown; ++i) {
    out.emplace_back(Say{LogLevel::error, unreached_[i]});
  }
  if (shown < unreached_.size()) {
    out.emplace_back(Say{LogLevel::error,
                         counted(unreached_.size() - shown, "more host") + " cannot be reached"});
  }
}

std::string HostsCore::last_trouble() const {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] == State::expected && !trouble_[i].empty()) {
      return "; retrying: " + trouble_[i];
    }
  }
  return {};
}

void HostsCore::tick_reaching(TimePoint now, HostsEffects& out) {
  if (now < reach_end_) {
    if (!std::exchange(noticed_, true)) {
      out.emplace_back(Say{LogLevel::warning,
                           fmt::format("waiting for {} of {} to answer: {}{}",
                                       count(State::expected),
                                       counted(states_.size(), "host"),
                                       names_of(State::expected),
                                       last_trouble())});
    }
    deadline_ = reach_end_;
    return;
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] == State::expected && !trouble_[i].empty()) {
      add_unreached(trouble_[i]);
    }
  }
  say_unreached(out);
  if (unreached_.empty()) {
    out.emplace_back(Say{LogLevel::error,
                         fmt::format("no answer within {} from {}: the host may be down, or the "
                                     "remote shell may be waiting at a prompt",
                                     describe(kReachTimeout),
                                     names_of(State::expected))});
  }
  close(now, kUnreachable, out);
}

// If too few hosts remain, stop the job. The remaining hosts would otherwise wait for an agent that
// is never restarted.
void HostsCore::lose_running(TimePoint now, const std::string& why, HostsEffects& out) {
  const std::size_t left = states_.size() - count(State::lost);
  const bool enough = left >= settings_.nodes_min;
  if (last_loss_ != why) {
    out.emplace_back(Say{enough ? LogLevel::warning : LogLevel::error, why});
    last_loss_ = why;
  }
  if (!enough && !ending_) {
    ending_ = true;
    own_code_ = first_code_.value_or(kUnreachable);
    deadline_ = now + settings_.grace + kEndExtra;
    out.emplace_back(PassSignal{SIGTERM, true});
  }
  end_if_over(now, out);
}

void HostsCore::ended(TimePoint now, std::size_t host, int code, HostsEffects& out) {
  MUSTER_CHECK(host < states_.size());
  if (phase_ != Phase::running || states_[host] != State::here) {
    return;
  }
  states_[host] = State::ended;
  if (code == 0) {
    ++ended_well_;
  } else if (!first_code_) {
    first_code_ = code;
  }
  end_if_over(now, out);
}

// Every launcher exits with the code of the job's root cause. If the job may continue with fewer
// hosts, it succeeds if enough launchers succeeded.
int HostsCore::job_code() const {
  if (own_code_) {
    return *own_code_;
  }
  const int no_code = interrupt_ ? kSignalBase + *interrupt_ : kUnreachable;
  return ended_well_ >= settings_.nodes_min ? 0 : first_code_.value_or(no_code);
}

void HostsCore::end_if_over(TimePoint now, HostsEffects& out) {
  if (count(State::here) == 0) {
    close(now, job_code(), out);
  }
}

void HostsCore::signal(TimePoint now, int signo, HostsEffects& out) {
  const bool ends = ends_the_job(signo);
  if (phase_ == Phase::reaching && ends) {
    close(now, kSignalBase + signo, out);
  } else if (phase_ == Phase::running) {
    out.emplace_back(PassSignal{signo});
    if (ends) {
      hurry(now, signo);
    }
  } else if (phase_ == Phase::closing && ends) {
    finish(out);
  }
}

// After the first stop request, workers get their grace period. A second request cuts it short, so
// that a hung remote shell cannot block the user's terminal.
void HostsCore::hurry(TimePoint now, int signo) {
  interrupt_ = interrupt_.value_or(signo);
  const TimePoint end = now + (ending_ ? kHurriedEndTimeout : settings_.grace + kEndExtra);
  hurried_ = std::exchange(ending_, true);
  deadline_ = std::min(deadline_.value_or(end), end);
}

void HostsCore::guard_lost(TimePoint now, HostsEffects& out) {
  if (phase_ < Phase::closing) {
    close(now, kSignalBase + SIGKILL, out);
  }
}

void HostsCore::give_up(TimePoint now, const std::string& why, HostsEffects& out) {
  if (phase_ < Phase::closing) {
    out.emplace_back(Say{LogLevel::error, why});
    close(now, kUnreachable, out);
  }
}

void HostsCore::close(TimePoint now, int code, HostsEffects& out) {
  MUSTER_CHECK(phase_ < Phase::closing);
  phase_ = Phase::closing;
  code_ = code;
  deadline_ = now + (hurried_ ? kHurriedCloseTimeout : kCloseTimeout);
  out.emplace_back(CloseAll{});
}

void HostsCore::all_gone(HostsEffects& out) {
  if (phase_ == Phase::closing) {
    finish(out);
  }
}

void HostsCore::finish(HostsEffects& out) {
  phase_ = Phase::done;
  deadline_.reset();
  out.emplace_back(Finish{code_});
}

void HostsCore::tick(TimePoint now, HostsEffects& out) {
  if (!deadline_ || now < *deadline_) {
    return;
  }
  switch (phase_) {
    case Phase::reaching:
      tick_reaching(now, out);
      break;
    case Phase::running:
      out.emplace_back(Say{LogLevel::error,
                           fmt::format("{} did not stop in time; closing the connection, which "
                                       "kills its processes",
                                       names_of(State::here))});
      close(now, job_code(), out);
      break;
    case Phase::closing:
      finish(out);
      break;
    case Phase::done:
      break;
  }
}

}  // namespace muster
