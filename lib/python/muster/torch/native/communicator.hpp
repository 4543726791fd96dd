// SPDX-License-Identifier: Apache-2.0
// The communicator of a group, which Python has made and also uses: one lock for both, what this
// module has under way, memory for buckets. Any thread.
#pragma once

#include "python/muster/torch/native/library.hpp"
#include "python/muster/torch/native/python.hpp"

#include <ATen/ATen.h>
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

namespace muster::torch_backend {

// An operation under way in a thread of the library, with the tensors that it uses. It is freed
// when it is over.
class Operation {
 public:
  Operation(muster_work* work, std::vector<at::Tensor> tensors)
      : work_(work), tensors_(std::move(tensors)) {}

  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  ~Operation() { library().work_free(work_); }

  [[nodiscard]] bool done() const { return library().work_done(work_) != 0; }

  // At most `ns`, or with 0 as long as it takes. 0, or the number of the error.
  [[nodiscard]] int wait(std::int64_t ns) const { return library().work_wait(work_, ns); }

 private:
  muster_work* work_;
  std::vector<at::Tensor> tensors_;
};

class Communicator {
 public:
  // owner: of the handle, which lives as long as this.
  Communicator(std::uintptr_t handle, py::object owner)
      : handle_(reinterpret_cast<muster_comm*>(handle)), owner_(std::move(owner)) {}

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  ~Communicator() { end(0); }

  // A communicator takes one call at a time: Python locks this as well.
  [[nodiscard]] std::mutex& lock() { return lock_; }

  // Until it is over.
  void perform(const muster_call& call, std::int64_t timeout_ms) {
    const std::scoped_lock lock(lock_);
    const int code = library().run(handle_, &call, nullptr);
    if (code != 0) {
      throw last_failure(timeout_ms);
    }
  }

  // Null: it is over already.
  [[nodiscard]] std::shared_ptr<Operation> start(const muster_call& call,
                                                 std::vector<at::Tensor> tensors,
                                                 std::int64_t timeout_ms) {
    const auto over = take_over();  // freed here, without the lock
    const std::scoped_lock lock(lock_);
    muster_work* work = nullptr;
    if (library().run(handle_, &call, &work) != 0) {
      throw last_failure(timeout_ms);
    }
    if (work == nullptr) {
      return nullptr;
    }
    const std::scoped_lock list(list_lock_);
    return under_way_.emplace_back(std::make_shared<Operation>(work, std::move(tensors)));
  }

  // Waits for the operations under way, whatever their outcome.
  void finish() {
    for (const auto& operation : take()) {
      static_cast<void>(operation->wait(0));
    }
  }

  // The group or the process ends without having waited for them. `max_wait_ns`: other ranks may be
  // about to join them. After that they are aborted: other ranks may never join, and the tensors go
  // away.
  void end(std::int64_t max_wait_ns) {
    if (pid_ != ::getpid()) {
      return;
    }
    const auto all = take();
    if (!over_within(all, max_wait_ns)) {
      abort(
          "the process group was garbage-collected, or the process ended, with operations under "
          "way");
      for (const auto& operation : all) {
        static_cast<void>(operation->wait(0));
      }
    }
  }

  void abort(const char* why) { library().abort(handle_, why); }

  // Memory that operations use without a copy; null where there is none. All ranks ask in the same
  // order, else operations on it copy.
  [[nodiscard]] void* alloc(std::size_t bytes) {
    const std::scoped_lock lock(lock_);
    {
      const std::scoped_lock list(list_lock_);
      for (void* memory : std::exchange(freed_, {})) {
        static_cast<void>(library().free(handle_, memory));
      }
    }
    void* memory = nullptr;
    return library().alloc(handle_, bytes, MUSTER_HOST, &memory) == 0 ? memory : nullptr;
  }

  // Any thread, also one that has the lock: it is freed by the next alloc().
  void free(void* memory) {
    const std::scoped_lock list(list_lock_);
    freed_.push_back(memory);
  }

 private:
  using Operations = std::vector<std::shared_ptr<Operation>>;

  [[nodiscard]] Operations take() {
    const std::scoped_lock list(list_lock_);
    return std::exchange(under_way_, {});
  }

  static bool over_within(const Operations& all, std::int64_t ns) {
    using std::chrono::nanoseconds;
    const auto end = std::chrono::steady_clock::now() + nanoseconds(ns);
    return std::all_of(all.begin(), all.end(), [end](const auto& each) {
      const nanoseconds rest = end - std::chrono::steady_clock::now();
      if (!each->done() && rest.count() > 0) {
        static_cast<void>(each->wait(rest.count()));
      }
      return each->done();
    });
  }

  // Those that are over.
  [[nodiscard]] Operations take_over() {
    const std::scoped_lock list(list_lock_);
    const auto open = std::stable_partition(
        under_way_.begin(), under_way_.end(), [](const auto& each) { return !each->done(); });
    Operations over(std::make_move_iterator(open), std::make_move_iterator(under_way_.end()));
    under_way_.erase(open, under_way_.end());
    return over;
  }

  muster_comm* handle_;
  Kept owner_;
  pid_t pid_ = ::getpid();
  std::mutex lock_;
  std::mutex list_lock_;  // of what follows
  Operations under_way_;
  std::vector<void*> freed_;
};

}  // namespace muster::torch_backend
