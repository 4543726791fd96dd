// SPDX-License-Identifier: Apache-2.0
// A group's communicator, created by and shared with Python: one lock for both languages, this
// module's pending operations, and memory for buckets. Thread-safe.
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

// An operation pending in a thread of the library, with the tensors that it uses. Freed when
// complete.
class Operation {
 public:
  Operation(muster_work* work, std::vector<at::Tensor> tensors)
      : work_(work), tensors_(std::move(tensors)) {}

  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  ~Operation() { library().work_free(work_); }

  [[nodiscard]] bool done() const { return library().work_done(work_) != 0; }

  // Waits for at most `ns`; 0 means no limit. Returns 0 or the error number.
  [[nodiscard]] int wait(std::int64_t ns) const { return library().work_wait(work_, ns); }

 private:
  muster_work* work_;
  std::vector<at::Tensor> tensors_;
};

class Communicator {
 public:
  // owner: the handle's Python owner, kept alive as long as this object.
  Communicator(std::uintptr_t handle, py::object owner)
      : handle_(reinterpret_cast<muster_comm*>(handle)), owner_(std::move(owner)) {}

  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  ~Communicator() { end(0); }

  // A communicator allows one call at a time, so Python uses this lock too.
  [[nodiscard]] std::mutex& lock() { return lock_; }

  // Returns when the operation is complete.
  void perform(const muster_call& call, std::int64_t timeout_ms) {
    const std::scoped_lock lock(lock_);
    const int code = library().run(handle_, &call, nullptr);
    if (code != 0) {
      throw last_failure(timeout_ms);
    }
  }

  // Null if the operation is already complete.
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

  // Waits for pending operations, whether they succeed or fail.
  void finish() {
    for (const auto& operation : take()) {
      static_cast<void>(operation->wait(0));
    }
  }

  // Called when the group is destroyed or the process exits with operations pending. Waits up to
  // `max_wait_ns`, because other ranks may be about to join them. Then aborts them, because other
  // ranks may never join and the tensors are about to be freed.
  void end(std::int64_t max_wait_ns) {
    if (pid_ != ::getpid()) {
      return;
    }
    const auto all = take();
    if (!over_within(all, max_wait_ns)) {
      abort(
          "the process group was garbage-collected, or the process exited, with pending "
          "operations");
      for (const auto& operation : all) {
        static_cast<void>(operation->wait(0));
      }
    }
  }

  void abort(const char* why) { library().abort(handle_, why); }

  // Allocates memory that operations use without a copy; null if no memory is left. All ranks must
  // allocate in the same order; otherwise operations copy.
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

  // Any thread may call it, even one that holds the lock; the next alloc() frees the memory.
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

  // Removes and returns the completed operations.
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
  std::mutex list_lock_;  // guards the members below
  Operations under_way_;
  std::vector<void*> freed_;
};

}  // namespace muster::torch_backend
