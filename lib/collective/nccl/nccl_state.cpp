// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_state.hpp"

#include "base/clock.hpp"
#include "collective/nccl/nccl_core.hpp"
#include "collective/nccl/planted.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <unistd.h>

namespace muster::collective::nccl {
namespace {

constexpr Duration kBlameTimeout = std::chrono::milliseconds(100);
constexpr Duration kBlamePause = std::chrono::milliseconds(1);
constexpr Duration kAbortLook = std::chrono::milliseconds(10);
constexpr Duration kExitTimeout = std::chrono::seconds(2);

// Detached threads run the aborts, because a thread that hangs in NCCL could never be joined. At
// exit the process waits briefly for running aborts: the driver's exit handlers shut it down, and a
// thread inside it would then crash (observed on an H100).
struct AbortThreads {
  std::mutex mutex;
  std::condition_variable ended;
  int running = 0;
};

// Never destroyed: threads outlive static objects.
AbortThreads& abort_threads() {
  static auto* const threads = new AbortThreads;
  return *threads;
}

void wait_for_abort_threads() {
  AbortThreads& threads = abort_threads();
  std::unique_lock lock(threads.mutex);
  threads.ended.wait_for(lock, kExitTimeout, [&] { return threads.running == 0; });
}

void run_detached(std::function<void()> body) {
  // Registered after the driver's own handlers, so it runs before them.
  static const bool waits_at_exit = std::atexit(wait_for_abort_threads) == 0;
  static_cast<void>(waits_at_exit);
  AbortThreads& threads = abort_threads();
  {
    const std::scoped_lock lock(threads.mutex);
    ++threads.running;
  }
  std::thread([body = std::move(body), &threads]() mutable {
    body();
    body = nullptr;  // releases its references to the driver
    const std::scoped_lock lock(threads.mutex);
    --threads.running;
    threads.ended.notify_all();
  }).detach();
}

std::string doing(const Call& call) {
  return call.request == nullptr ? std::string(call.name)
                                 : fmt::format("{} ({})", call.request->describe(), call.name);
}

// NCCL may connect ranks within the call. The call then waits for those ranks before the watchdog
// can check anything.
void look_at_others(const Call& call, const Setup& setup, NcclState& state) {
  if (call.request == nullptr || !setup.disagreement) {
    return;
  }
  if (auto wrong = setup.disagreement(*call.request)) {
    static_cast<void>(state.kill(*std::move(wrong)));
  }
}

}  // namespace

Result<ncclResult_t> NcclState::enter(const std::function<ncclResult_t(ncclComm_t)>& body) {
  std::unique_lock inside(device().nccl_lock(), std::defer_lock);
  if (!planted("no device lock")) {
    inside.lock();
  }
  if (auto error = dead()) {
    return std::unexpected(*std::move(error));
  }
  return body(comm_);
}

Result<void> NcclState::run(const Call& call) {
  const CurrentDevice current(device());
  PollCore poll(call.deadline);
  auto answer = enter(call.body);
  while (answer) {
    const auto step = poll.next(*answer, steady_now());
    if (step.kind == PollCore::Step::Kind::ended || planted("no poll")) {
      return {};
    }
    if (step.kind == PollCore::Step::Kind::failed) {
      return std::unexpected(kill(failed(call, *answer)));
    }
    if (step.kind == PollCore::Step::Kind::late) {
      return std::unexpected(kill(late(call)));
    }
    if (step.pause == Duration::zero()) {
      std::this_thread::yield();
    } else {
      pause(step.pause);
      look_at_others(call, setup_, *this);
    }
    look_at_peers();
    answer = enter([this](ncclComm_t comm) {
      ncclResult_t state = ncclSuccess;
      const auto asked = nccl().get_async_error(comm, &state);
      return asked == ncclSuccess ? state : asked;
    });
  }
  return std::unexpected(answer.error());
}

void NcclState::look() {
  ncclResult_t state = ncclSuccess;
  const auto asked = enter([&](ncclComm_t comm) { return nccl().get_async_error(comm, &state); });
  if (!asked) {
    return;
  }
  state = *asked == ncclSuccess ? state : *asked;
  if (ends_communicator(state)) {
    static_cast<void>(kill(
        failed({.name = "an operation", .request = nullptr, .deadline = {}, .body = {}}, state)));
  }
}

void NcclState::look_at_peers() {
  if (setup_.peers != nullptr) {
    if (auto error = setup_.peers->failure()) {
      static_cast<void>(kill(*std::move(error)));
    }
  }
}

Error NcclState::failed(const Call& call, ncclResult_t result) {
  const Failure what{.doing = doing(call),
                     .seq = call.request == nullptr ? 0 : call.request->seq,
                     .result = result};
  return blame(nccl_error(setup_.speaker, what, *setup_.nccl, device().driver()));
}

Error NcclState::blame(Error error) {
  if (error.code != Errc::peer_failed || setup_.peers == nullptr) {
    return error;
  }
  for (Duration waited{0}; waited < kBlameTimeout; waited += kBlamePause) {
    if (auto known = setup_.peers->failure()) {
      return *std::move(known);
    }
    pause(kBlamePause);
  }
  return error;
}

Error NcclState::late(const Call& call) const {
  const std::string where = call.request != nullptr && setup_.positions ? setup_.positions() : "";
  return {.code = Errc::timeout,
          .epoch = setup_.speaker.epoch,
          .seq = call.request == nullptr ? 0 : call.request->seq,
          .text = fmt::format(
              "{}: {} did not complete in time; a rank has not called it, or is hung{}; "
              "{}",
              describe(setup_.speaker),
              doing(call),
              where.empty() ? "" : "; on this host: " + where,
              describe(*setup_.nccl, device().driver()))};
}

Error NcclState::kill(Error error) {
  if (planted("failure is ignored")) {
    return error;
  }
  {
    const std::scoped_lock lock(mutex_);
    if (dead_) {
      return *dead_;
    }
    dead_ = error;
  }
  changed_.notify_all();
  if (setup_.peers != nullptr) {
    setup_.peers->report(error);
  }
  start_abort();
  return error;
}

void NcclState::start_abort() {
  std::shared_ptr<const Underway> operation;
  {
    const std::scoped_lock lock(mutex_);
    operation = newest_.lock();
  }
  // Two threads share this state: one may hang in NCCL while the other watches it.
  run_detached([self = shared_from_this(), operation] { self->see_abort_through(operation); });
  run_detached([self = shared_from_this()] { self->abort_now(); });
}

// ncclCommAbort also waits for the caller's work: everything queued before an operation and,
// because it frees memory, everything else on the GPU. That may take a long time. The deadline
// applies only to our own operation.
void NcclState::see_abort_through(const std::shared_ptr<const Underway>& operation) {
  const CurrentDevice current(device());
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  device().cuda().exchange_capture_mode(&mode);
  auto at = Underway::At::operation;
  for (TimePoint since = steady_now(); steady_now() - since <= setup_.abort_timeout;) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kAbortLook, [this] { return aborted_; })) {
      return;
    }
    lock.unlock();
    at = operation ? operation->at() : Underway::At::operation;
    const bool queued =
        at == Underway::At::caller && !planted("the deadline covers the caller's work");
    since = queued ? steady_now() : since;
  }
  give_up_if_stuck(at);
  set_aborted();
}

void NcclState::give_up_if_stuck(Underway::At at) {
  if (at == Underway::At::end && !planted("abort is all or nothing")) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  fmt::print(stderr,
             "muster: {}: ncclCommAbort has not returned within {}; exiting with code "
             "{}. Reason for the abort: {}\n",
             describe(setup_.speaker),
             muster::describe(setup_.abort_timeout),
             kStuckExit,
             dead_->text);
  // Do not call exit(), because destructors would also wait for the GPU.
  _exit(kStuckExit);
}

void NcclState::newest(std::weak_ptr<const Underway> operation) {
  const std::scoped_lock lock(mutex_);
  newest_ = std::move(operation);
}

void NcclState::set_aborted() {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

void NcclState::abort_now() {
  {
    const CurrentDevice current(device());
    std::unique_lock inside(device().nccl_lock(), std::defer_lock);
    if (!planted("no device lock")) {
      inside.lock();
    }
    // After this, no other thread can use the communicator.
    ncclComm_t comm = planted("use after abort") ? comm_ : std::exchange(comm_, nullptr);
    // Unlock before aborting: NCCL frees memory and thereby waits until the GPU is idle. Operations
    // of other communicators that are waiting for the same peer finish only when their
    // communicators are aborted too, which requires the lock.
    if (inside.owns_lock() && !planted("abort with the lock held")) {
      inside.unlock();
    }
    if (comm != nullptr) {
      nccl().abort(comm);
    }
  }
  set_aborted();
}

std::optional<Error> NcclState::dead() const {
  const std::scoped_lock lock(mutex_);
  return planted("use after abort") ? std::nullopt : dead_;
}

void NcclState::pause(Duration most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [this] { return dead_.has_value(); });
}

void NcclState::wait_for_abort() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return aborted_; });
}

bool NcclState::aborted() const {
  const std::scoped_lock lock(mutex_);
  return aborted_;
}

void NcclState::retire() {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  if (!dead_) {
    dead_ =
        Error{.code = Errc::invalid_state,
              .epoch = setup_.speaker.epoch,
              .text = fmt::format("{}: the communicator was destroyed", describe(setup_.speaker))};
  }
}

// Called without the lock, like an abort, because it also waits until the GPU is idle.
Result<void> NcclState::destroy() {
  const CurrentDevice current(device());
  ncclComm_t comm = nullptr;
  auto answer = enter([this, &comm](ncclComm_t own) {
    if (planted("destroy with the lock held")) {
      return nccl().destroy(own);
    }
    comm = std::exchange(comm_, nullptr);
    retire();
    return ncclSuccess;
  });
  MUSTER_RETURN_IF_ERROR(answer);
  if (const auto result = comm == nullptr ? *answer : nccl().destroy(comm); result != ncclSuccess) {
    return std::unexpected(failed(
        {.name = "ncclCommDestroy", .request = nullptr, .deadline = {}, .body = {}}, result));
  }
  return {};
}

}  // namespace muster::collective::nccl
