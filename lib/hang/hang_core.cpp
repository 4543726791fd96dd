// SPDX-License-Identifier: Apache-2.0
#include "hang/hang_core.hpp"

#include <algorithm>

namespace muster::hang {
namespace {

// An unset counter counts as 0, so a counter that appears with a value above 0 has grown.
bool grew(const std::optional<std::uint64_t>& before, const std::optional<std::uint64_t>& now) {
  return now.value_or(0) > before.value_or(0);
}

}  // namespace

void HangCore::begin(TimePoint now, const std::vector<int>& ranks) {
  end();
  began_ = now;
  looked_at_ = now;
  last_step_ = now;
  progressed_ = now;
  for (const int rank : ranks) {
    ranks_[rank] = {.last = {.rank = rank}, .progressed = now, .lived = now};
  }
  look_again(now);
}

void HangCore::end() {
  ranks_.clear();
  intervals_.clear();
  next_look_.reset();
  judge_after_.reset();
  announced_.reset();
  told_at_.reset();
  // said_blind_ is not reset, so that the warning appears only once, not again after each restart.
  steps_seen_ = 0;
  strong_ = false;
  any_source_ = false;
  debugged_ = false;
  judging_ = false;
}

Duration HangCore::limit() const {
  if (settings_.limit) {
    return *settings_.limit;
  }
  if (steps_seen_ < kStepsFirst || intervals_.empty()) {
    return kStartLimit;
  }
  // One long interval, such as an evaluation, raises the limit until it is no longer among the last
  // kIntervalsKept intervals.
  return std::max(kAutoLimitMin, kIntervalFactor * *std::ranges::max_element(intervals_));
}

Duration HangCore::quiet(int rank, TimePoint now) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? Duration{} : now - progressed(found->second);
}

Duration HangCore::lifeless(int rank, TimePoint now) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) {
    return {};
  }
  // A rank that waits in an operation may spin there. In that case only progress is a sign of life.
  const Rank& one = found->second;
  return now - (one.waits ? progressed(one) : one.lived);
}

bool HangCore::is_strong(int rank) const {
  const auto found = ranks_.find(rank);
  return found != ranks_.end() && found->second.strong;
}

// Often only rank 0 reports progress. Its progress then counts for all ranks that have never
// reported any.
TimePoint HangCore::progressed(const Rank& rank) const {
  return rank.strong ? rank.progressed : progressed_;
}

// The job counts as stalled as soon as one rank makes no progress, even if other ranks still do.
Duration HangCore::longest_quiet(TimePoint now) const {
  Duration out{};
  for (const auto& [number, rank] : ranks_) {
    out = std::max(out, now - progressed(rank));
  }
  return out;
}

bool HangCore::has_source() const {
  return any_source_ || (settings_.limit && settings_.sees_output);
}

bool HangCore::is_blind(TimePoint now) const {
  if (has_source()) {
    return false;
  }
  const Duration age = now - began_;
  const bool lifeless =
      settings_.limit && age >= limit() && std::ranges::all_of(ranks_, [&](const auto& entry) {
        return now - entry.second.lived >= limit();
      });
  return lifeless || age >= (settings_.limit ? kBlindAfter : kBlindAfterAuto);
}

void HangCore::look_again(TimePoint now) {
  next_look_ = now + std::clamp<Duration>(limit() / 8, kLookMin, kLookMax);
}

// -- what a check observes --------------------------------------------------------------------

// Assumes that all steps since the last check took equally long. The first step number does not
// count, because it may come from a checkpoint. Operations come in bursts, so all operations
// between two checks count as one.
void HangCore::note_interval(TimePoint now, const Sample& before, const Sample& sample) {
  const std::uint64_t count =
      sample.steps && steps_seen_ > 0 ? *sample.steps - before.steps.value_or(0) : 1;
  if (steps_seen_ > 0) {
    intervals_.push_back((now - last_step_) / static_cast<Duration::rep>(count));
  }
  if (intervals_.size() > kIntervalsKept) {
    intervals_.pop_front();
  }
  steps_seen_ += count;
  last_step_ = now;
}

// Until the first step or operation, CPU time is a sign of life, because the program may be
// compiling. With auto, CPU time is always a sign of life, because the user has not specified how
// long an evaluation may take.
void HangCore::note_life(TimePoint now, const Sample& sample, Rank& rank) const {
  // Advances the time of the last sign of life, so that this interval counts neither for nor
  // against the rank.
  if (sample.answers) {
    rank.lived += now - looked_at_;
    return;
  }
  const double seconds = std::chrono::duration<double>(now - looked_at_).count();
  const bool known = sample.io_bytes && rank.last.io_bytes;
  // The total may shrink, because used_by() adds up only processes that exist.
  const std::uint64_t bytes =
      known && *sample.io_bytes > *rank.last.io_bytes ? *sample.io_bytes - *rank.last.io_bytes : 0;
  // If checks are less than a second apart, proportionally less I/O is enough. If a check is late,
  // the requirement does not grow.
  const bool io =
      static_cast<double>(bytes) >= static_cast<double>(kLiveBytes) * std::min(1.0, seconds);
  const bool cpu = (!strong_ || !settings_.limit) && known &&
                   sample.cpu_seconds - rank.last.cpu_seconds >= kLiveCpu * seconds;
  if (io || cpu || grew(rank.last.output, sample.output)) {
    rank.lived = now;
  }
}

void HangCore::note(TimePoint now, const Sample& sample, Rank& rank) {
  const bool step = grew(rank.last.steps, sample.steps);
  const bool operation = grew(rank.last.operations, sample.operations);
  any_source_ = any_source_ || sample.steps || sample.operations || sample.output.value_or(0) > 0;
  // Only one rank provides the intervals. Otherwise every step would count once per rank. If the
  // rank reports steps, its operations do not count.
  if (&rank == &ranks_.begin()->second && (step || (operation && !sample.steps))) {
    note_interval(now, rank.last, sample);
  }
  rank.strong = rank.strong || step || operation;
  strong_ = strong_ || rank.strong;
  rank.waits = rank.waits && !step && !operation && !grew(rank.last.output, sample.output);
  // A step or an operation counts as progress of this rank. Output counts as progress of the whole
  // job, because often only rank 0 prints. Once a step or an operation is seen, output is only a
  // sign of life.
  if (step || operation) {
    rank.progressed = now;
    progressed_ = now;
  } else if (!strong_ && grew(rank.last.output, sample.output)) {
    progressed_ = now;
  }
  // The first sample contains totals since the start of the process, not the activity in this
  // interval.
  if (rank.seen) {
    note_life(now, sample, rank);
  }
  rank.last = sample;
  rank.seen = true;
}

bool HangCore::wants_life(TimePoint now) const {
  return longest_quiet(now) >= limit() / 4;
}

// Ranks that were paused together with the agent are not hanging.
void HangCore::forgive_own_pause(TimePoint now) {
  const Duration pause = next_look_ ? now - *next_look_ : Duration{};
  if (pause < kOwnPause) {
    return;
  }
  forgive(pause);
}

void HangCore::forgive(Duration pause) {
  for (auto& [number, rank] : ranks_) {
    rank.progressed += pause;
    rank.lived += pause;
  }
  began_ += pause;
  progressed_ += pause;
  last_step_ += pause;
}

void HangCore::looked(TimePoint now,
                      const std::vector<Sample>& samples,
                      std::vector<HangEffect>& out) {
  // Other ranks may wait for a rank that is being debugged.
  debugged_ = std::ranges::any_of(samples, &Sample::debugged);
  if (debugged_) {
    forgive(now - looked_at_);
  } else {
    forgive_own_pause(now);
  }
  // GoesOn reports how long the hang has lasted, so it is computed before the new samples are
  // processed.
  const Duration before = longest_quiet(now);
  for (const Sample& sample : samples) {
    if (const auto found = ranks_.find(sample.rank); found != ranks_.end()) {
      note(now, sample, found->second);
    }
  }
  looked_at_ = now;
  look_again(now);
  if (!is_watching()) {
    next_look_.reset();
    return;
  }
  if (debugged_) {
    return;
  }
  const Duration limit = this->limit();
  const Duration quiet = longest_quiet(now);
  if (!said_blind_ && is_blind(now)) {
    said_blind_ = true;
    out.emplace_back(SayBlind{});
  }
  if (quiet < limit) {
    judge_after_.reset();
    // If the verdict arrived before our own limit had passed, `quiet` was below the limit even
    // during the hang. The hang is then over only if all ranks have made progress since the
    // verdict.
    const bool goes_on = !told_at_ || quiet < now - *told_at_;
    if (announced_ && goes_on) {
      announced_.reset();
      told_at_.reset();
      out.emplace_back(GoesOn{before});
    }
    return;
  }
  // Our own limit has passed, too. From now on `quiet < limit` is enough to show progress.
  told_at_.reset();
  // If no verdict has arrived within kVerdictMax, request it again. An inspection of this node
  // takes less time (kInspectionMax), so it is the leader that has not answered.
  if (judging_ && now - judging_since_ >= kVerdictMax) {
    judging_ = false;
  }
  if (has_source() && !judging_ && !announced_ && (!judge_after_ || now >= *judge_after_)) {
    judging_ = true;
    judging_since_ = now;
    out.emplace_back(Inspect{});
  }
}

void HangCore::waits(int rank) {
  if (const auto found = ranks_.find(rank); found != ranks_.end()) {
    found->second.waits = true;
  }
}

// -- consequences of a verdict ----------------------------------------------------------------

bool HangCore::is_slow(int rank, TimePoint now) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) {
    return false;
  }
  const Rank& one = found->second;
  const bool lives = lifeless(rank, now) < limit() && now - progressed(one) < kSlowFactor * limit();
  return lives || now - progressed(one) < limit();
}

std::optional<Announce> HangCore::judged(TimePoint now, const Verdict& verdict) {
  judging_ = false;
  const Duration quiet = longest_quiet(now);
  if (!is_watching() || debugged_ || quiet < limit()) {
    return std::nullopt;  // the job made progress during the inspection, or is being debugged
  }
  // A stopped process makes no progress until it is resumed, so earlier signs of life do not
  // matter.
  const bool certain = verdict.cause == Cause::stopped;
  // If no rank reported steps or operations, muster does not know which rank waits for which. Any
  // live rank may then be the one that stalls the others.
  const bool slow =
      strong_ ? std::ranges::any_of(verdict.ranks, [&](int rank) { return is_slow(rank, now); })
              : std::ranges::any_of(ranks_,
                                    [&](const auto& entry) { return is_slow(entry.first, now); });
  if (slow && !certain) {
    judge_after_ = now + limit() / 4;
    return std::nullopt;
  }
  announced_ = verdict;
  return Announce{quiet, limit(), settings_.on_hang};
}

// If a verdict arrives before our own limit has passed, the hang is over once our ranks make
// progress.
void HangCore::told(TimePoint now, const std::optional<Verdict>& verdict) {
  judging_ = false;
  if (!is_watching()) {
    return;
  }
  if (!verdict || debugged_) {
    judge_after_ = now + limit() / 4;
    return;
  }
  announced_ = verdict;
  told_at_.reset();
  if (longest_quiet(now) < limit()) {
    told_at_ = now;
  }
}

}  // namespace muster::hang
