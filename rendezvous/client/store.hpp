// SPDX-License-Identifier: Apache-2.0
// Store: what a worker or a library does with the shared store of its job, over whatever carries
// it. Calls block. Deadlines are given as a timeout from now; an operation without one is a single
// round trip. Not thread-safe: one thread at a time. Interface; BlockingStore is the real one.
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

  // Not answered by the server: a failure shows at the next call that is.
  [[nodiscard]] virtual Result<void> set(std::string_view key, std::string_view value) = 0;
  [[nodiscard]] virtual Result<void> append(std::string_view key, std::string_view value) = 0;
  [[nodiscard]] virtual Result<void> multi_set(
      const std::vector<std::pair<std::string, std::string>>& pairs) = 0;

  // Waits for the key, then reads it. Error: timed_out.
  [[nodiscard]] virtual Result<std::string> get(std::string_view key, Duration timeout) = 0;
  // The values in the order of the keys, once all exist. Error: timed_out.
  [[nodiscard]] virtual Result<std::vector<std::string>> multi_get(
      const std::vector<std::string>& keys, Duration timeout) = 0;

  // The counter after the addition; a missing key counts as 0.
  [[nodiscard]] virtual Result<std::int64_t> add(std::string_view key, std::int64_t delta) = 0;

  // Replaces the value if it is `expected` (a missing key is ""), and returns what the key holds
  // then; for a missing key that was expected to hold something, `expected` itself.
  [[nodiscard]] virtual Result<std::string> compare_set(std::string_view key,
                                                        std::string_view expected,
                                                        std::string_view desired) = 0;

  // Until all keys exist. Error: timed_out, after which the store can be used further.
  [[nodiscard]] virtual Result<void> wait(const std::vector<std::string>& keys,
                                          Duration timeout) = 0;
  // Whether all keys exist now.
  [[nodiscard]] virtual Result<bool> check(const std::vector<std::string>& keys) = 0;

  // Whether the key existed.
  [[nodiscard]] virtual Result<bool> delete_key(std::string_view key) = 0;
  [[nodiscard]] virtual Result<std::int64_t> num_keys() = 0;
  // In order.
  [[nodiscard]] virtual Result<std::vector<std::string>> list_keys() = 0;

  [[nodiscard]] virtual Result<void> queue_push(std::string_view key, std::string_view value) = 0;
  // The oldest element, waiting for one if need be. Error: timed_out.
  [[nodiscard]] virtual Result<std::string> queue_pop(std::string_view key, Duration timeout) = 0;
  [[nodiscard]] virtual Result<std::int64_t> queue_len(std::string_view key) = 0;

  // Until `world_size` callers have come to the key. A key is good for one barrier: used again, it
  // lets everyone pass. Error: timed_out.
  [[nodiscard]] virtual Result<void> barrier(std::string_view key,
                                             std::int64_t world_size,
                                             Duration timeout) = 0;
};

// A barrier made of ADD, SET and WAIT, with the keys of PyTorch's generic one: for servers that
// have no barrier of their own, and for every PrefixStore.
[[nodiscard]] Result<void> generic_barrier(Store& store,
                                           std::string_view key,
                                           std::int64_t world_size,
                                           Duration timeout);

}  // namespace muster
