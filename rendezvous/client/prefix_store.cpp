// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/prefix_store.hpp"

namespace muster {

std::string PrefixStore::full(std::string_view key) const {
  return prefix_ + std::string(key);
}

std::vector<std::string> PrefixStore::full(const std::vector<std::string>& keys) const {
  std::vector<std::string> out;
  out.reserve(keys.size());
  for (const std::string& key : keys) {
    out.push_back(full(key));
  }
  return out;
}

Result<void> PrefixStore::set(std::string_view key, std::string_view value) {
  return below_.set(full(key), value);
}

Result<void> PrefixStore::append(std::string_view key, std::string_view value) {
  return below_.append(full(key), value);
}

Result<void> PrefixStore::multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) {
  auto out = pairs;
  for (auto& [key, value] : out) {
    key = full(key);
  }
  return below_.multi_set(out);
}

Result<std::string> PrefixStore::get(std::string_view key, Duration timeout) {
  return below_.get(full(key), timeout);
}

Result<std::vector<std::string>> PrefixStore::multi_get(const std::vector<std::string>& keys,
                                                        Duration timeout) {
  return below_.multi_get(full(keys), timeout);
}

Result<std::int64_t> PrefixStore::add(std::string_view key, std::int64_t delta) {
  return below_.add(full(key), delta);
}

Result<std::string> PrefixStore::compare_set(std::string_view key,
                                             std::string_view expected,
                                             std::string_view desired) {
  return below_.compare_set(full(key), expected, desired);
}

Result<void> PrefixStore::wait(const std::vector<std::string>& keys, Duration timeout) {
  return below_.wait(full(keys), timeout);
}

Result<bool> PrefixStore::check(const std::vector<std::string>& keys) {
  return below_.check(full(keys));
}

Result<bool> PrefixStore::delete_key(std::string_view key) {
  return below_.delete_key(full(key));
}

Result<std::int64_t> PrefixStore::num_keys() {
  return below_.num_keys();
}

Result<std::vector<std::string>> PrefixStore::list_keys() {
  auto keys = below_.list_keys();
  if (!keys) {
    return keys;
  }
  std::vector<std::string> out;
  for (const std::string& key : *keys) {
    if (key.starts_with(prefix_)) {
      out.push_back(key.substr(prefix_.size()));
    }
  }
  return out;
}

Result<void> PrefixStore::queue_push(std::string_view key, std::string_view value) {
  return below_.queue_push(full(key), value);
}

Result<std::string> PrefixStore::queue_pop(std::string_view key, Duration timeout) {
  return below_.queue_pop(full(key), timeout);
}

Result<std::int64_t> PrefixStore::queue_len(std::string_view key) {
  return below_.queue_len(full(key));
}

// Does not use the underlying store's barrier, because PyTorch's class does not, and PyTorch
// processes may wait at the same barrier.
Result<void> PrefixStore::barrier(std::string_view key, std::int64_t world_size, Duration timeout) {
  return generic_barrier(*this, key, world_size, timeout);
}

}  // namespace muster
