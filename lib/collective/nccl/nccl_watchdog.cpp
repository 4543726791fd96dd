// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_watchdog.hpp"

#include "base/clock.hpp"
#include "collective/nccl/planted.hpp"

namespace muster::collective::nccl {

NcclWatchdog::NcclWatchdog(std::shared_ptr<NcclState> state, Progress* progress)
    : state_(std::move(state)), progress_(progress), thread_([this] { run(); }) {}

NcclWatchdog::~NcclWatchdog() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void NcclWatchdog::watch(std::shared_ptr<NcclPending> operation) {
  bool was_idle = false;
  {
    const std::scoped_lock lock(mutex_);
    was_idle = operations_.empty();
    operations_.push_back(std::move(operation));
  }
  // While operations are pending, the thread polls every kPeriod anyway. Waking it would cost the
  // caller 2 µs.
  if (was_idle) {
    changed_.notify_all();
  }
}

void NcclWatchdog::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return operations_.empty() || state_->dead(); });
}

void NcclWatchdog::run() {
  // In the default capture mode, querying an event would invalidate a graph capture in another
  // thread.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (!planted("no capture mode")) {
    state_->device().cuda().exchange_capture_mode(&mode);
  }
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (operations_.empty() || state_->dead()) {
      operations_.clear();
      changed_.notify_all();
      changed_.wait(lock);
      continue;
    }
    changed_.wait_for(lock, kPeriod, [this] { return stop_; });
    // Query NCCL and the driver without the lock, so that watch() does not wait for them.
    lock.unlock();
    look();
    lock.lock();
    changed_.notify_all();
  }
}

std::shared_ptr<NcclPending> NcclWatchdog::first() {
  const std::scoped_lock lock(mutex_);
  return operations_.empty() ? nullptr : operations_.front();
}

void NcclWatchdog::look() {
  const CurrentDevice current(state_->device());
  // Check the peers first: a rank's death is a better explanation than the NCCL error it causes.
  state_->look_at_peers();
  state_->look();
  while (const auto operation = first()) {
    const TimePoint now = steady_now();
    operation->look_at_start(now, progress_);
    // Check completed operations too: if types differ between ranks, an operation can complete
    // with wrong results.
    if (auto wrong = operation->disagreement()) {
      static_cast<void>(state_->kill(*std::move(wrong)));
      return;
    }
    if (!operation->ended()) {
      if (operation->overdue(now)) {
        static_cast<void>(state_->kill(operation->late()));
      }
      return;
    }
    if (progress_ != nullptr) {
      progress_->completed(operation->request());
    }
    const std::scoped_lock lock(mutex_);
    operations_.pop_front();
  }
}

}  // namespace muster::collective::nccl
