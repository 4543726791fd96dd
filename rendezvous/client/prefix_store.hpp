// SPDX-License-Identifier: Apache-2.0
// PrefixStore: a view of another store that prepends "prefix/" to every key. The keys on the wire
// match those of PyTorch's class of the same name, so both can share a store. The underlying store
// must outlive it.
#pragma once

#include "rendezvous/client/store.hpp"

#include <string>
#include <utility>
#include <vector>

namespace muster {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, Store& below) : prefix_(std::move(prefix) + "/"), below_(below) {}

  [[nodiscard]] Result<void> set(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<void> append(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<void> multi_set(
      const std::vector<std::pair<std::string, std::string>>& pairs) override;
  [[nodiscard]] Result<std::string> get(std::string_view key, Duration timeout) override;
  [[nodiscard]] Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys,
                                                           Duration timeout) override;
  [[nodiscard]] Result<std::int64_t> add(std::string_view key, std::int64_t delta) override;
  [[nodiscard]] Result<std::string> compare_set(std::string_view key,
                                                std::string_view expected,
                                                std::string_view desired) override;
  [[nodiscard]] Result<void> wait(const std::vector<std::string>& keys, Duration timeout) override;
  [[nodiscard]] Result<bool> check(const std::vector<std::string>& keys) override;
  [[nodiscard]] Result<bool> delete_key(std::string_view key) override;
  // Counts the keys of the whole store, as PyTorch does.
  [[nodiscard]] Result<std::int64_t> num_keys() override;
  // Lists only keys with this prefix, and removes the prefix.
  [[nodiscard]] Result<std::vector<std::string>> list_keys() override;
  [[nodiscard]] Result<void> queue_push(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<std::string> queue_pop(std::string_view key, Duration timeout) override;
  [[nodiscard]] Result<std::int64_t> queue_len(std::string_view key) override;
  [[nodiscard]] Result<void> barrier(std::string_view key,
                                     std::int64_t world_size,
                                     Duration timeout) override;

 private:
  [[nodiscard]] std::string full(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> full(const std::vector<std::string>& keys) const;

  std::string prefix_;
  Store& below_;
};

}  // namespace muster
