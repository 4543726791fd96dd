// SPDX-License-Identifier: Apache-2.0
// The Work of an operation that runs in a thread of the library, and its future.
#pragma once

#include "python/muster/torch/native/communicator.hpp"
#include "python/muster/torch/native/work.hpp"

#include <algorithm>
#include <atomic>

namespace muster::torch_backend {

class Pending final : public c10d::Work {
 public:
  static constexpr std::int64_t kSlice = 200'000'000;  // ns between checks for Ctrl-C

  struct Parts {
    std::shared_ptr<Operation> operation;
    Tensors outputs;
    std::int64_t timeout_ms;          // the operation's timeout, for error texts
    std::shared_ptr<Kept> completer;  // object in futures.py that completes the future
  };

  Pending(int rank, c10d::OpType type, Parts parts)
      : Work(rank, type),
        operation_(std::move(parts.operation)),
        outputs_(std::move(parts.outputs)),
        timeout_ms_(parts.timeout_ms),
        completer_(std::move(parts.completer)) {}

  bool isCompleted() override { return operation_->done(); }

  bool isSuccess() const override { return operation_->done() && failure() == nullptr; }

  std::exception_ptr exception() const override { return failure(); }

  // A timeout of 0 means the operation's own timeout.
  bool wait(std::chrono::milliseconds timeout) override {
    const Unlocked unlocked;
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (operation_->wait(slice(timeout, end)) == MUSTER_E_TIMEOUT && !operation_->done()) {
      if (given_up_.load()) {
        throw Failure(muster_error{sizeof(muster_error), MUSTER_E_ABORTED, -1, 0, 0, 0},
                      "the process is exiting and the operation has not completed");
      }
      if (timeout.count() > 0 && std::chrono::steady_clock::now() >= end) {
        throw last_failure();
      }
      look_for_signals();
    }
    if (const auto failed = failure()) {
      std::rethrow_exception(failed);
    }
    return true;
  }

  void synchronize() override { wait(kNoTimeout); }

  Tensors result() override {
    wait(kNoTimeout);
    return outputs_;
  }

  Future getFuture() override;

  // Called by futures.py. Returns whether the operation completes within that time.
  bool over_within(double seconds) {
    static_cast<void>(operation_->wait(std::max<std::int64_t>(1, std::int64_t(seconds * 1e9))));
    return operation_->done();
  }

  void give_up() { given_up_.store(true); }

  // Called by futures.py when the operation has completed or been abandoned.
  void complete(const Future& future) {
    try {
      wait(kNoTimeout);
      future->markCompleted(c10::IValue(outputs_));
    } catch (...) {
      future->setError(std::current_exception());
    }
  }

 private:
  static std::int64_t slice(std::chrono::milliseconds timeout,
                            std::chrono::steady_clock::time_point end) {
    if (timeout.count() <= 0) {
      return kSlice;
    }
    const std::chrono::nanoseconds rest = end - std::chrono::steady_clock::now();
    return std::clamp<std::int64_t>(rest.count(), 1, kSlice);
  }

  static void look_for_signals() {
    if (!python_ends()) {
      const py::gil_scoped_acquire gil;
      if (PyErr_CheckSignals() != 0) {
        throw py::error_already_set();
      }
    }
  }

  // Null until complete.
  std::exception_ptr failure() const {
    return !operation_->done() || operation_->wait(0) == 0
               ? nullptr
               : std::make_exception_ptr(last_failure(timeout_ms_));
  }

  std::shared_ptr<Operation> operation_;
  Tensors outputs_;
  std::int64_t timeout_ms_;
  std::shared_ptr<Kept> completer_;
  std::atomic<bool> given_up_{false};
  Future future_;  // guarded by the GIL
};

// futures.py sets this when an operation is complete.
class Trigger {
 public:
  Trigger(c10::intrusive_ptr<Pending> work, Future future)
      : work_(std::move(work)), future_(std::move(future)) {}

  void set_result(const py::object& /*none*/) {
    const py::gil_scoped_release unlocked;
    work_->complete(future_);
  }

 private:
  c10::intrusive_ptr<Pending> work_;
  Future future_;
};

// futures.py waits for this object.
class Awaited {
 public:
  explicit Awaited(c10::intrusive_ptr<Pending> work) : work_(std::move(work)) {}

  bool over_within(double seconds) {
    const py::gil_scoped_release unlocked;
    return work_->over_within(seconds);
  }

  void give_up() { work_->give_up(); }

 private:
  c10::intrusive_ptr<Pending> work_;
};

inline Future Pending::getFuture() {
  const py::gil_scoped_acquire gil;
  if (future_) {
    return future_;
  }
  future_ = new_future();
  if (operation_->done()) {  // after wait() the value is available immediately
    complete(future_);
    return future_;
  }
  const auto self = c10::intrusive_ptr<Pending>::unsafe_reclaim_from_nonowning(this);
  completer_->get().attr("add")(Awaited(self), Trigger(self, future_));
  return future_;
}

}  // namespace muster::torch_backend
