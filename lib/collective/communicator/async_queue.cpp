// SPDX-License-Identifier: Apache-2.0
#include "collective/communicator/async_queue.hpp"

#include "base/blocked_signals.hpp"
#include "base/clock.hpp"

#include <set>
#include <utility>

#include <pthread.h>

namespace muster::collective {
namespace {

template <class Main>
std::thread quiet_thread(const Main& main) {
  const BlockedSignals blocked;
  return std::thread(main);
}

}  // namespace

Result<void> HostPending::wait(Duration timeout) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return done_.load(std::memory_order_relaxed); };
  if (!over() && std::this_thread::get_id() != caller_) {
    awaited_.by_helper = true;
  } else if (!over() && !awaited_.by_caller) {
    awaited_.by_caller = steady_now();
  }
  if (timeout <= Duration::zero()) {
    changed_.wait(lock, over);
  } else if (!changed_.wait_for(lock, timeout, over)) {
    return failure(Errc::timeout,
                   "the operation did not complete within the wait timeout; it continues");
  }
  return result_;
}

HostPending::Awaited HostPending::finish(Result<void> result) {
  const std::scoped_lock lock(mutex_);
  result_ = std::move(result);
  // Store done_ after the result, because done() takes no lock. Hold the lock for the store;
  // otherwise a waiter could check done_, miss the notification and then sleep.
  done_.store(true, std::memory_order_release);
  changed_.notify_all();
  return awaited_;
}

CollectiveQueue::~CollectiveQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void CollectiveQueue::add(AsyncJob job) {
  const std::scoped_lock lock(mutex_);
  if (!thread_.joinable()) {
    thread_ = quiet_thread([this] { run(); });
  }
  jobs_.push_back(std::move(job));
  open_.fetch_add(1);
  changed_.notify_all();
}

void CollectiveQueue::drain() {
  if (open_.load(std::memory_order_acquire) != 0) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_.load() == 0; });
  }
}

void CollectiveQueue::run() {
  ::pthread_setname_np(::pthread_self(), "muster-queue");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) {
      return;
    }
    AsyncJob job = std::move(jobs_.front());
    jobs_.pop_front();
    // Unlock while the operation runs: it may take minutes, and add() must not wait for it.
    lock.unlock();
    perform(job);
    lock.lock();
    open_.fetch_sub(1);
    changed_.notify_all();
  }
}

void CollectiveQueue::perform(AsyncJob& job) {
  const TimePoint now = steady_now();
  job.request.deadline = now + job.timeout;
  recorder_.started_at(job.ticket, now);
  auto done = transport_.start(job.request);
  if (!done) {
    job.pending->finish(std::unexpected(std::move(done.error())));
    return;
  }
  const TimePoint over = steady_now();
  recorder_.completed_at(job.ticket, over);
  recorder_.waited(held_up(job.pending->finish({}), job, over));
}

// If a helper thread is waiting, the caller may in turn be waiting for the helper. Assume this as
// long as the caller uses no CPU time. Count operations that overlap in time only once.
Duration CollectiveQueue::held_up(const HostPending::Awaited& awaited,
                                  const AsyncJob& job,
                                  TimePoint over) {
  if (!awaited.by_caller && (!awaited.by_helper || !job.called)) {
    return Duration::zero();
  }
  if (awaited.by_caller) {
    return over - *awaited.by_caller;
  }
  const CallerMoment& called = *job.called;
  const bool goes_on = counted_ && counted_->clock == called.clock && counted_->at > called.at;
  const CallerMoment from = goes_on ? *counted_ : called;
  counted_ = CallerMoment{.clock = called.clock, .at = over, .used = called.clock.used()};
  return from.used && counted_->used ? over - from.at - (*counted_->used - *from.used)
                                     : Duration::zero();
}

TransferQueue::~TransferQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void TransferQueue::add(AsyncJob job) {
  {
    const std::scoped_lock lock(mutex_);
    if (!thread_.joinable()) {
      thread_ = quiet_thread([this] { run(); });
    }
    added_.push_back(std::move(job));
    open_.fetch_add(1);
    has_new_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  // The thread may be asleep in the transport instead of on the condition variable. Wake it after
  // unlocking, because it takes the lock as soon as it wakes up.
  transport_.wake();
}

bool TransferQueue::wait_for_work() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !added_.empty(); });
  return !added_.empty();
}

void TransferQueue::run() {
  constexpr int kStepsPerLook = 64;
  ::pthread_setname_np(::pthread_self(), "muster-transfer");
  int stuck = 0;
  while (true) {
    if (active_.empty() && !wait_for_work()) {
      return;
    }
    take_new();
    stuck = step_all() ? 0 : stuck + 1;
    if (stuck > 0 && stuck % kStepsPerLook == 0) {
      look_at_all();
      if (!has_new_.load(std::memory_order_acquire)) {
        transport_.rest(stuck / kStepsPerLook);
      }
    }
  }
}

void TransferQueue::take_new() {
  if (!has_new_.load(std::memory_order_acquire)) {
    return;
  }
  std::deque<AsyncJob> added;
  {
    const std::scoped_lock lock(mutex_);
    added.swap(added_);
    has_new_.store(false, std::memory_order_relaxed);
  }
  for (AsyncJob& job : added) {
    job.request.deadline = steady_now() + job.timeout;
    recorder_.started_at(job.ticket, steady_now());
    auto transfer = transport_.begin(job.request);
    Active active{.job = std::move(job), .transfer = nullptr};
    if (!transfer) {
      end(active, std::unexpected(std::move(transfer.error())));
      continue;
    }
    active.transfer = std::move(*transfer);
    active_.push_back(std::move(active));
  }
}

bool TransferQueue::step_all() {
  // Messages between two ranks are ordered, so only the oldest message of a pair and direction may
  // progress.
  std::set<std::pair<Kind, int>> taken;
  bool moved = false;
  for (auto it = active_.begin(); it != active_.end();) {
    const bool first = taken.insert({it->job.request.kind, it->job.request.root}).second;
    it = first && step(*it, moved) ? active_.erase(it) : std::next(it);
  }
  return moved;
}

bool TransferQueue::step(Active& active, bool& moved) {
  const auto result = active.transfer->step();
  if (!result) {
    end(active, std::unexpected(result.error()));
    return true;
  }
  moved = moved || *result != Transfer::Step::stuck;
  if (*result != Transfer::Step::done) {
    return false;
  }
  end(active, {});
  return true;
}

void TransferQueue::look_at_all() {
  bool failed = false;
  for (Active& active : active_) {
    active.error = transport_.look(active.job.request);
    failed = failed || active.error;
  }
  if (!failed) {
    return;
  }
  // Step again: the peers may have completed their part between the last step and the error.
  while (step_all()) {
  }
  std::erase_if(active_, [this](Active& active) {
    const bool ended = active.error.has_value();
    if (ended) {
      end(active, std::unexpected(std::move(*active.error)));
    }
    return ended;
  });
}

void TransferQueue::end(Active& active, Result<void> result) {
  const TimePoint over = steady_now();
  if (result) {
    recorder_.completed_at(active.job.ticket, over);
  }
  // Decrement before publishing the result, because a thread that receives the result may start a
  // transfer, which checks empty().
  open_.fetch_sub(1, std::memory_order_release);
  if (const auto awaited = active.job.pending->finish(std::move(result)).by_caller) {
    recorder_.waited(over - *awaited);
  }
}

}  // namespace muster::collective
