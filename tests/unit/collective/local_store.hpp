// SPDX-License-Identifier: Apache-2.0
// LocalStore: a store for ranks that are threads of one process. Thread-safe. Rejects requests that
// the collective library does not use.
#pragma once

#include "rendezvous/client/store.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace muster::testing {

class LocalStore final : public Store {
 public:
  Result<void> set(std::string_view key, std::string_view value) override {
    const std::scoped_lock lock(mutex_);
    values_[std::string(key)] = value;
    changed_.notify_all();
    return {};
  }

  Result<std::string> get(std::string_view key, Duration timeout) override {
    auto all = multi_get({std::string(key)}, timeout);
    return all ? Result<std::string>((*all)[0]) : std::unexpected(all.error());
  }

  Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys,
                                             Duration timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return holds(keys); })) {
      return failure(Errc::timed_out, "the key did not come");
    }
    std::vector<std::string> out;
    for (const auto& key : keys) {
      out.push_back(values_[key]);
    }
    return out;
  }

  Result<bool> check(const std::vector<std::string>& keys) override {
    const std::scoped_lock lock(mutex_);
    return holds(keys);
  }

  Result<void> wait(const std::vector<std::string>& keys, Duration timeout) override {
    auto all = multi_get(keys, timeout);
    return all ? Result<void>() : std::unexpected(all.error());
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override {
    const std::scoped_lock lock(mutex_);
    return counters_[std::string(key)] += delta;
  }

  Result<void> append(std::string_view, std::string_view) override { return refuse(); }

  Result<void> multi_set(const std::vector<std::pair<std::string, std::string>>&) override {
    return refuse();
  }

  Result<std::string> compare_set(std::string_view, std::string_view, std::string_view) override {
    return refuse();
  }

  Result<bool> delete_key(std::string_view key) override {
    const std::scoped_lock lock(mutex_);
    return values_.erase(std::string(key)) > 0;
  }

  Result<std::int64_t> num_keys() override {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::int64_t>(values_.size());
  }

  Result<std::vector<std::string>> list_keys() override { return refuse(); }

  Result<void> queue_push(std::string_view, std::string_view) override { return refuse(); }

  Result<std::string> queue_pop(std::string_view, Duration) override { return refuse(); }

  Result<std::int64_t> queue_len(std::string_view) override { return refuse(); }

  Result<void> barrier(std::string_view, std::int64_t, Duration) override { return refuse(); }

 private:
  [[nodiscard]] bool holds(const std::vector<std::string>& keys) const {
    for (const auto& key : keys) {
      if (!values_.contains(key)) {
        return false;
      }
    }
    return true;
  }

  static std::unexpected<Error> refuse() {
    return failure(Errc::internal, "not in the store of the tests");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::int64_t> counters_;
};

}  // namespace muster::testing
