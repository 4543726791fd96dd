// SPDX-License-Identifier: Apache-2.0
// State: memory that is equal on all ranks, and the last commit of it. Each commit writes one of
// two copies, so that an interrupted copy does not change the last commit. Resource; one thread at
// a time.
#pragma once

#include "collective/error.hpp"
#include "collective/transport/peer_watch.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace muster::collective::elastic {

class State {
 public:
  // Registers memory that stays valid and equal on all ranks. Errors: invalid_argument (no
  // memory), invalid_state (there is a commit already, or a function runs).
  [[nodiscard]] Result<void> add(void* data, std::size_t bytes);

  // Called after each loss, before the function is called again.
  void on_reset(std::function<void()> function) { resets_.push_back(std::move(function)); }

  // Copies the memory and reports the number of commits as this rank's progress. Errors:
  // peer_failed (another rank was lost; the copy is stored), system (out of memory).
  [[nodiscard]] Result<void> commit();
  // Returns to the last commit. Does nothing before the first commit.
  void restore();

  // The number of commits since the job started; the same on all ranks when the function starts.
  [[nodiscard]] std::uint64_t commits() const { return counter_.value_or(0); }

  // -- for run() --------------------------------------------------------------------------------

  // Allocates the copies. After this, add() fails. Error: system.
  [[nodiscard]] Result<void> prepare();

  // commit() reports failures of this watch. Null: none.
  void attach(const PeerWatch* watch) { watch_ = watch; }

  void call_reset_functions();

  // Empty before the first commit.
  [[nodiscard]] std::optional<std::uint64_t> counter() const { return counter_; }

  // A hash of the sizes.
  [[nodiscard]] std::uint64_t layout() const;
  // The last commit; before the first commit, the current values.
  [[nodiscard]] std::span<std::byte> last();

  // Memory for another rank's commit, which adopt() makes the last commit.
  [[nodiscard]] std::span<std::byte> spare() { return copy(1 - current_); }

  void adopt_spare() { current_ = 1 - current_; }

  // Sets the counter of the last commit.
  void count(std::uint64_t commits) { counter_ = commits; }

 private:
  void save();
  [[nodiscard]] std::span<std::byte> copy(std::size_t index) const;

  std::vector<std::span<std::byte>> parts_;
  std::vector<std::function<void()>> resets_;
  std::unique_ptr<std::byte[]> memory_;  // both copies
  std::size_t bytes_ = 0;                // of one copy
  std::size_t current_ = 0;              // which copy is the last commit
  std::optional<std::uint64_t> counter_;
  const PeerWatch* watch_ = nullptr;
};

}  // namespace muster::collective::elastic
