// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/preemption_control.hpp"

#include "agent/rounds/shared_rounds.hpp"
#include "base/clock.hpp"
#include "base/plural.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include <unistd.h>

namespace muster {
namespace {

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

TimePoint steady_time_of(std::int64_t unix_seconds) {
  const double left = static_cast<double>(unix_seconds) - wall_now_seconds();
  return steady_now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(left));
}

}  // namespace

PreemptionControl::PreemptionControl(asio::io_context& loop,
                                     const AgentSetup& setup,
                                     PreemptionParts parts)
    : setup_(setup),
      parts_(parts),
      file_timer_(loop),
      end_timer_(loop),
      repeat_timer_(loop),
      deadline_timer_(loop),
      late_timer_(loop),
      late_ranks_(loop, setup),
      cloud_(loop, setup.environ, parts.events) {}

// -- sources ----------------------------------------------------------------------------------

void PreemptionControl::start() {
  parts_.channel.when_saved(
      [this](int local_rank, std::uint64_t step) { step_saved(local_rank, step); });
  const std::string& file = setup_.config.preempt_file;
  if (!file.empty()) {
    file_is_old_ = exists(file);
    if (file_is_old_) {
      parts_.events.say(LogLevel::warning,
                        fmt::format("--preempt-file '{}' exists already: ignoring it until it is "
                                    "removed and created again",
                                    file));
    }
    watch_file();
  }
  if (!setup_.config.preempt_url.empty()) {
    watch_cloud();
  }
  if (setup_.config.platform.ends) {
    watch_end();
  }
}

void PreemptionControl::watch_file() {
  file_timer_.expires_after(kPreemptFileInterval);
  file_timer_.async_wait([this](const asio::error_code& error) {
    if (error) {
      return;
    }
    const std::string& file = setup_.config.preempt_file;
    const bool is_there = exists(file);
    if (is_there && !file_is_old_) {
      give({"the file '" + file + "' exists",
            steady_now() + setup_.config.shutdown_timeout,
            stops_node()});
      return;
    }
    file_is_old_ = file_is_old_ && is_there;
    watch_file();
  });
}

// Without a time, the deadline is that of other notices.
void PreemptionControl::watch_cloud() {
  const std::string& source = setup_.config.preempt_url;
  cloud_.start(source, [this, &source](std::optional<std::int64_t> ends) {
    const TimePoint soon = steady_now() + setup_.config.shutdown_timeout;
    const TimePoint latest = ends ? steady_time_of(*ends) - kCloudMargin : soon;
    give({"--preempt-url=" + source, std::max(latest, steady_now()), stops_node()});
  });
}

// The scheduler stops the job at this time. If no worker polls for a notice, muster does nothing.
void PreemptionControl::watch_end() {
  const TimePoint end = steady_time_of(setup_.config.platform.ends->value);
  end_timer_.expires_at(
      std::max(end - setup_.config.shutdown_timeout, steady_now() + kEndInterval));
  end_timer_.async_wait([this, end](const asio::error_code& error) {
    if (error || steady_now() >= end) {
      return;
    }
    if (runs() && parts_.channel.polls_preemption()) {
      give({"the job reaches its time limit", end});
    } else {
      watch_end();
    }
  });
}

// True if the signal is the first SIGTERM on this node, and a notice. In a job of several nodes,
// another node may have given notice before, because schedulers signal one node after another.
bool PreemptionControl::is_notice(int signo) const {
  const LaunchConfig& config = setup_.config;
  const bool is_handled =
      std::ranges::find(config.signals_to_handle, signo) != config.signals_to_handle.end() &&
      config.shutdown_timeout > Duration::zero();
  return signo == SIGTERM && !asked_at_ &&
         (begun_ || (is_handled && runs() && parts_.channel.polls_preemption()));
}

// Schedulers may send their signal more than once (SIGNALS.md).
bool PreemptionControl::is_repeated(int signo) const {
  const bool by_scheduler = setup_.config.signal_delivery != SignalDelivery::leader;
  return signo == SIGTERM && asked_at_ &&
         (by_scheduler || steady_now() - *asked_at_ < kSameRequestTime);
}

bool PreemptionControl::take_signal(int signo, pid_t sender) {
  const bool is_chosen = signo == setup_.config.preempt_signal;
  if (!is_chosen && !is_notice(signo)) {
    return is_repeated(signo);
  }
  asked_at_ = signo == SIGTERM ? std::optional(steady_now()) : asked_at_;
  std::string why = signal_name(signo);
  if (sender != 0) {
    why += fmt::format(" from pid {}", sender);
  }
  give({why, steady_now() + setup_.config.shutdown_timeout, stops_node()});
  return true;
}

// -- the round --------------------------------------------------------------------------------

void PreemptionControl::take(const JobEvent& event) {
  if (const auto* begun = std::get_if<event::RoundBegun>(&event.what)) {
    begin_round(*begun);
  } else if (const auto* started = std::get_if<event::WorkerStarted>(&event.what)) {
    running_[started->rank] = started->pid;
    ++started_;
    ask();
  } else if (const auto* ended = std::get_if<event::WorkerEnded>(&event.what)) {
    running_.erase(ended->rank);
  } else if (std::holds_alternative<event::JobEnded>(event.what)) {
    file_timer_.cancel();
    cloud_.stop();
    end_timer_.cancel();
    repeat_timer_.cancel();
    deadline_timer_.cancel();
    late_timer_.cancel();
  }
}

void PreemptionControl::begin_round(const event::RoundBegun& begun) {
  if (parts_.supervisor.core().result().preemption) {
    return;  // this node leaves the round, and then reports what was saved before
  }
  if (!is_stopped_) {
    wanted_.reset();
  }
  rank_first_ = begun.assignment.rank_first;
  nproc_ = begun.assignment.local_world_size;
  others_ = begun.assignment.world_size - nproc_;
  started_ = 0;
  running_.clear();
  begun_.reset();
  decided_ = false;
  step_.reset();
  saved_.clear();
}

bool PreemptionControl::runs() const {
  const SupervisorState state = parts_.supervisor.core().state();
  return started_ >= nproc_ && started_ > 0 &&
         (state == SupervisorState::running || state == SupervisorState::mending);
}

// The workers on this node have finished; those on other nodes may still run.
bool PreemptionControl::has_finished() const {
  return started_ > 0 && parts_.supervisor.core().state() == SupervisorState::waiting;
}

void PreemptionControl::step_saved(int local_rank, std::uint64_t step) {
  saved_[rank_first_ + local_rank] = step;
  parts_.events.tell(event::StepSaved{rank_first_ + local_rank, local_rank, step});
}

// -- the notice -------------------------------------------------------------------------------

bool PreemptionControl::stops_node() const {
  return setup_.config.preempt_scope == PreemptScope::node && parts_.others != nullptr;
}

// If the workers do not run yet, they receive the notice when all have been started.
void PreemptionControl::give(const Given& given) {
  const bool is_first = !wanted_ && !begun_;
  if (!is_first) {
    // Another node is stopped, and now this one, too. Its workers already save.
    if (!is_stopped_ && begun_ && begun_->is_of_node) {
      is_stopped_ = true;
      begun_->is_of_node = given.is_of_node;
      tell_supervisor(*begun_);
    }
    return;
  }
  is_stopped_ = true;
  want(given);
  // The leader may be lost, and no round may form any more.
  deadline_timer_.expires_at(given.deadline);
  deadline_timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !begun_) {
      tell_supervisor(*wanted_);
    }
  });
}

void PreemptionControl::tell_supervisor(const Given& given) {
  const Preempts what = !given.is_of_node ? Preempts::job
                        : is_stopped_     ? Preempts::this_node
                                          : Preempts::other_node;
  parts_.supervisor.handle(Preempted{given.why, given.deadline, what});
}

void PreemptionControl::want(const Given& given) {
  wanted_ = given;
  ask();
}

void PreemptionControl::ask() {
  const bool may_ask = runs() || (parts_.others != nullptr && has_finished());
  if (!wanted_ || decided_ || !may_ask) {
    return;
  }
  if (parts_.others == nullptr) {
    begin(*wanted_);
    decide({notice_of(*wanted_), save_step({parts_.channel.latest_step()})}, Topic::preemption);
    return;
  }
  parts_.others->tell(InquireHere{topic_of(*wanted_), encode(notice_of(*wanted_))});
  repeat_timer_.expires_after(kNoticeRepeat);
  repeat_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      ask();
    }
  });
}

Topic PreemptionControl::topic_of(const Given& given) const {
  return given.is_of_node ? Topic::departure : Topic::preemption;
}

PreemptionNotice PreemptionControl::notice_of(const Given& given) const {
  return {given.why, std::max(given.deadline - steady_now(), Duration::zero())};
}

// From now on, workers that see the notice wait for the decision.
void PreemptionControl::begin(const Given& given) {
  begun_ = given;
  saved_.clear();  // earlier checkpoints do not count
  parts_.channel.begin_preemption(given.deadline);
  tell_supervisor(given);
  await_late();
}

void PreemptionControl::await_late() {
  const Duration left = begun_->deadline - steady_now();
  late_timer_.expires_at(begun_->deadline - std::min<Duration>(kLateLook, left / 2));
  late_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      look_at_late();
    }
  });
}

// A notice for the whole job arrives after one for a node. The workers already save.
void PreemptionControl::widen(const Given& given) {
  if (begun_ && begun_->is_of_node && !given.is_of_node) {
    begun_->is_of_node = false;
    begun_->deadline = std::min(begun_->deadline, given.deadline);
    parts_.channel.begin_preemption(begun_->deadline);
    tell_supervisor(*begun_);
    await_late();
  }
}

void PreemptionControl::look_at_late() {
  std::map<int, pid_t> late = running_;
  std::erase_if(late, [this](const auto& entry) { return saved_.contains(entry.first); });
  const Duration left = begun_->deadline - steady_now();
  if (!late.empty() && left > Duration::zero()) {
    late_ranks_.look(late, left * 2 / 3);
  }
}

void PreemptionControl::decide(const PreemptionDecision& decision, Topic topic) {
  const Given given{
      decision.notice.why, steady_now() + decision.notice.left, topic == Topic::departure};
  widen(given);
  if (decided_) {
    return;
  }
  if (!begun_) {
    begin(given);
  }
  decided_ = true;
  step_ = decision.step;
  parts_.channel.preempt({step_, begun_->deadline, begun_->why});
  const Duration left = begun_->deadline - steady_now();
  parts_.events.tell(
      event::PreemptionBegun{begun_->why,
                             std::max(std::chrono::duration<double>(left).count(), 0.0),
                             step_,
                             begun_->is_of_node});
  if (!parts_.channel.polls_preemption()) {
    parts_.events.say(LogLevel::warning,
                      "no rank on this node has called preempted(): ranks that do not exit before "
                      "the deadline are killed");
  }
}

// -- several nodes ----------------------------------------------------------------------------

void PreemptionControl::inquire(const InquiryStep& step) {
  if (const auto* asked = std::get_if<LookNow>(&step)) {
    look(asked->question);
  } else if (const auto* all = std::get_if<JudgeNow>(&step)) {
    judge(*all);
  } else {
    const Judged& said = std::get<HearVerdict>(step).said;
    if (const auto decision = decode_decision(said.verdict)) {
      decide(*decision, said.topic);
    }
  }
}

void PreemptionControl::look(const Look& question) {
  const auto notice = decode_notice(question.request);
  if (notice) {
    const Given given{notice->why, steady_now() + notice->left, question.topic == Topic::departure};
    begun_ ? widen(given) : begin(given);
  }
  parts_.others->tell(LookedHere{
      {question.round, question.inquiry, encode(parts_.channel.latest_step()), question.topic}});
  if (begun_ && !wanted_ && !decided_) {
    want(*begun_);  // asks again if the decision is lost
  }
}

// The leader's part. A node that has not answered is ignored: it is dead or does not respond.
void PreemptionControl::judge(const JudgeNow& all) {
  std::vector<ReportedStep> steps;
  for (const NodeAnswer& answer : all.nodes) {
    steps.push_back(decode_step(answer.findings));
  }
  PreemptionDecision decision{decode_notice(all.request).value_or(PreemptionNotice{}),
                              save_step(steps)};
  if (begun_) {
    decision.notice = notice_of(*begun_);
  }
  parts_.others->tell(JudgedHere{{all.round, all.inquiry, encode(decision), all.topic}});
}

// -- the end ----------------------------------------------------------------------------------

std::string PreemptionControl::fate_of(int local_rank) const {
  const int rank = rank_first_ + local_rank;
  if (const auto saved = saved_.find(rank); saved != saved_.end()) {
    return fmt::format("rank {} saved step {} but did not exit before the deadline; killing it",
                       rank,
                       saved->second);
  }
  const auto steps = parts_.channel.steps();
  const auto index = static_cast<std::size_t>(local_rank);
  const auto step = index < steps.size() ? steps[index] : std::nullopt;
  std::string text = fmt::format("rank {} did not save before the deadline: ", rank);
  text += step ? fmt::format("it is at step {}", *step) : "it has reported no step";
  if (const std::string reason = late_ranks_.reason(rank); !reason.empty()) {
    text += ", " + reason;
  }
  if (!saved_.empty()) {
    const auto latest =
        std::ranges::max_element(saved_, {}, [](const auto& entry) { return entry.second; });
    text += fmt::format("; {} saved step {}",
                        saved_.size() == 1 ? fmt::format("rank {}", latest->first) : "the others",
                        latest->second);
  }
  return text + "; killing it";
}

void PreemptionControl::tell_late(const std::vector<int>& local_ranks) const {
  const std::size_t named = std::min(local_ranks.size(), kLateRanksNamed);
  for (std::size_t i = 0; i < named; ++i) {
    parts_.events.say(LogLevel::warning, fate_of(local_ranks[i]));
  }
  if (local_ranks.size() > named) {
    parts_.events.say(
        LogLevel::warning,
        fmt::format("{} did not exit before the deadline either; killing them",
                    counted(static_cast<int>(local_ranks.size() - named), "more rank")));
  }
}

void PreemptionControl::complete(JobResult& result) const {
  if (result.preemption) {
    result.preemption->step = step_;
    result.preemption->saved = saved_;
    result.preemption->workers_elsewhere = others_;
  }
}

}  // namespace muster
