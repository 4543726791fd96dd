// SPDX-License-Identifier: Apache-2.0
// elastic::run and elastic::State: training functions that survive the loss of other ranks. muster
// --restart=rank replaces only the rank that failed. C++17 wrappers for elastic.h. One thread at a
// time may use a State.
//
//   std::uint64_t step = 0;
//   std::vector<float> weights(1000);
//   muster::elastic::State state;
//   state.add(step);
//   state.add(weights);
//   auto done = muster::elastic::run(state, [&](muster::Communicator& comm) { … });
#pragma once

#include "muster/collective.hpp"
#include "muster/elastic.h"
#include "muster/elastic_training.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {
inline namespace v1 {
namespace elastic {

namespace detail {

template <class T, class = void>
struct IsRange : std::false_type {};

template <class T>
struct IsRange<
    T,
    std::void_t<decltype(std::data(std::declval<T&>())), decltype(std::size(std::declval<T&>()))>>
    : std::true_type {};

}  // namespace detail

// Memory of the program that is equal on all ranks, and a copy of it: the last commit. All ranks
// add the same sizes in the same order, before run(). run() and commit() report the error of an
// invalid add().
class State {
 public:
  State() {
    muster_state* made = nullptr;
    check(muster_state_create(&made));
    state_.reset(made);
  }

  // Host memory that the caller owns. It must not move, so a vector must not grow.
  void add(void* data, std::size_t bytes) {
    if (state_) {
      check(muster_state_add(get(), data, bytes));
    }
  }

  // A trivially copyable value, or the elements of a vector, array or span.
  template <class T>
  void add(T&& value) {
    using Value = std::remove_reference_t<T>;
    if constexpr (detail::IsRange<Value>::value) {
      using Element = std::remove_reference_t<decltype(*std::data(value))>;
      static_assert(std::is_trivially_copyable_v<Element>, "cannot copy these elements as bytes");
      static_assert(std::is_lvalue_reference_v<T> || std::is_trivially_copyable_v<Value>,
                    "a temporary container does not stay valid");
      add(static_cast<void*>(std::data(value)), std::size(value) * sizeof(Element));
    } else {
      static_assert(std::is_lvalue_reference_v<T>, "a temporary value does not stay valid");
      static_assert(std::is_trivially_copyable_v<Value> && !std::is_pointer_v<Value>,
                    "cannot copy this type as bytes: pass its memory and size");
      add(static_cast<void*>(&value), sizeof(value));
    }
  }

  // Copies the memory and reports the number of commits as this rank's progress. All ranks commit
  // at the same points of the function. After the loss of a rank, all ranks continue from the
  // newest commit that any of them has. Error: peer_failed (another rank was lost; the copy is
  // stored), which the function must return.
  Result<void> commit() {
    return error_ ? Result<void>(*error_) : muster::detail::result_of(muster_state_commit(get()));
  }

  // Returns to the last commit. Does nothing before the first commit.
  void restore() {
    if (state_) {
      muster_state_restore(get());
    }
  }

  // The number of commits since the job started.
  [[nodiscard]] std::uint64_t commits() const { return state_ ? muster_state_commits(get()) : 0; }

  // Registers a function that run() calls after each loss of a rank, in surviving processes, before
  // it calls the training function again. The function must not throw.
  void on_reset(std::function<void()> function) {
    resets_.push_back(std::make_unique<std::function<void()>>(std::move(function)));
    const auto call = [](void* user) noexcept { (*static_cast<std::function<void()>*>(user))(); };
    if (state_) {
      muster_state_on_reset(get(), call, resets_.back().get());
    }
  }

  // The first error of add(), if any.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  [[nodiscard]] muster_state* get() const { return state_.get(); }

 private:
  struct Destroy {
    void operator()(muster_state* state) const { muster_state_destroy(state); }
  };

  void check(int code) {
    if (code != 0 && !error_) {
      error_ = muster::detail::last_error();
    }
  }

  std::unique_ptr<muster_state, Destroy> state_;
  std::vector<std::unique_ptr<std::function<void()>>> resets_;
  std::optional<Error> error_;
};

// Connects all ranks, gives them the state of the rank with the most commits (at the start of the
// job: rank 0's values) and calls `function(Communicator&)`, which returns Result<void>. If another
// rank is lost meanwhile, operations on the communicator and commits fail, and the function returns
// their error. run() then restores the state, waits for the replacement, connects again and calls
// the function again, so the function must start from the values in the state. The function must
// destroy everything that it has created from the communicator.
//
// Returns when the function has returned without an error on all ranks. Returns the function's own
// error, or rethrows its exception, if muster reports no lost rank within 3 seconds (15 seconds in
// a job of several nodes); without muster, at once. Other errors: invalid_state (second call in a
// process that muster started), system (muster rejects or closes the connection of this process),
// and those of Communicator::from_env and of operations. Options: `name` and, under muster,
// `init_timeout` are not used.
template <class Function>
Result<void> run(State& state, Function&& function, const CommOptions& options = {}) {
  if (state.error()) {
    return *state.error();
  }
  using Training = detail::Training<std::remove_reference_t<Function>>;
  Training training(function);
  const muster_comm_options o = muster::detail::in_c(options);
  return training.result(muster_elastic_run(state.get(), &Training::call, &training, &o));
}

}  // namespace elastic
}  // namespace v1
}  // namespace muster
