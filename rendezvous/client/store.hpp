// SPDX-License-Identifier: Apache-2.0
// Store: the operations that a worker or library performs on the job's shared store, independent of
// the transport. Calls block. Timeouts start at the call; operations without a timeout are a single
// round trip. Not thread-safe: only one thread at a time. Interface; BlockingStore is the real
// implementation.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  // The server does not reply to SET, so an error is reported by the next call that has a reply.
  [[nodiscard]] virtual Result<void> set(std::string_view key, std::string_view value) = 0;
  [[nodiscard]] virtual Result<void> append(std::string_view key, std::string_view value) = 0;
  [[nodiscard]] virtual Result<void> multi_set(
      const std::vector<std::pair<std::string, std::string>>& pairs) = 0;

  // Waits for the key, then returns its value. Error: timed_out.
  [[nodiscard]] virtual Result<std::string> get(std::string_view key, Duration timeout) = 0;
  // Waits until all keys exist, then returns their values in the order of `keys`. Error: timed_out.
  [[nodiscard]] virtual Result<std::vector<std::string>> multi_get(
      const std::vector<std::string>& keys, Duration timeout) = 0;

  // Returns the counter after the addition; a missing key counts as 0.
  [[nodiscard]] virtual Result<std::int64_t> add(std::string_view key, std::int64_t delta) = 0;

  // Replaces the value if it equals `expected` (a missing key counts as ""). Returns the resulting
  // value, or `expected` if the key is missing and `expected` is not empty.
  [[nodiscard]] virtual Result<std::string> compare_set(std::string_view key,
                                                        std::string_view expected,
                                                        std::string_view desired) = 0;

  // Waits until all keys exist. Error: timed_out; the store remains usable.
  [[nodiscard]] virtual Result<void> wait(const std::vector<std::string>& keys,
                                          Duration timeout) = 0;
  // True if all keys exist now.
  [[nodiscard]] virtual Result<bool> check(const std::vector<std::string>& keys) = 0;

  // Returns true if the key existed before.
  [[nodiscard]] virtual Result<bool> delete_key(std::string_view key) = 0;
  [[nodiscard]] virtual Result<std::int64_t> num_keys() = 0;
  // Returns the keys in sorted order.
  [[nodiscard]] virtual Result<std::vector<std::string>> list_keys() = 0;

  [[nodiscard]] virtual Result<void> queue_push(std::string_view key, std::string_view value) = 0;
  // Returns the oldest element. Waits if the queue is empty. Error: timed_out.
  [[nodiscard]] virtual Result<std::string> queue_pop(std::string_view key, Duration timeout) = 0;
  [[nodiscard]] virtual Result<std::int64_t> queue_len(std::string_view key) = 0;

  // Waits until `world_size` callers have reached the key's barrier. Use each key for only one
  // barrier, because later calls with the same key return immediately. Error: timed_out.
  [[nodiscard]] virtual Result<void> barrier(std::string_view key,
                                             std::int64_t world_size,
                                             Duration timeout) = 0;
};

// A barrier built from ADD, SET and WAIT, with the same keys as PyTorch's generic barrier. Used for
// servers without BARRIER, and by PrefixStore.
[[nodiscard]] Result<void> generic_barrier(Store& store,
                                           std::string_view key,
                                           std::int64_t world_size,
                                           Duration timeout);

}  // namespace muster
