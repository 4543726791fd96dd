// SPDX-License-Identifier: Apache-2.0
// A Store that records requests and returns canned answers.
#pragma once

#include "rendezvous/client/store.hpp"

namespace muster::testing {

class FakeStore final : public Store {
 public:
  std::vector<std::string> calls;
  std::int64_t add_result = 1;
  std::vector<std::string> keys;

  Result<void> set(std::string_view key, std::string_view value) override {
    note("set", key, value);
    return {};
  }

  Result<void> append(std::string_view key, std::string_view value) override {
    note("append", key, value);
    return {};
  }

  Result<void> multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) override {
    for (const auto& [key, value] : pairs) {
      note("multi_set", key, value);
    }
    return {};
  }

  Result<std::string> get(std::string_view key, Duration) override {
    note("get", key);
    return "value";
  }

  Result<std::vector<std::string>> multi_get(const std::vector<std::string>& names,
                                             Duration) override {
    note_all("multi_get", names);
    return names;
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override {
    note("add", key, std::to_string(delta));
    return add_result;
  }

  Result<std::string> compare_set(std::string_view key,
                                  std::string_view expected,
                                  std::string_view desired) override {
    note("compare_set", key, std::string(expected) + ">" + std::string(desired));
    return std::string(desired);
  }

  Result<void> wait(const std::vector<std::string>& names, Duration) override {
    note_all("wait", names);
    return {};
  }

  Result<bool> check(const std::vector<std::string>& names) override {
    note_all("check", names);
    return true;
  }

  Result<bool> delete_key(std::string_view key) override {
    note("delete_key", key);
    return true;
  }

  Result<std::int64_t> num_keys() override { return static_cast<std::int64_t>(keys.size()); }

  Result<std::vector<std::string>> list_keys() override { return keys; }

  Result<void> queue_push(std::string_view key, std::string_view value) override {
    note("queue_push", key, value);
    return {};
  }

  Result<std::string> queue_pop(std::string_view key, Duration) override {
    note("queue_pop", key);
    return "element";
  }

  Result<std::int64_t> queue_len(std::string_view key) override {
    note("queue_len", key);
    return 1;
  }

  Result<void> barrier(std::string_view key, std::int64_t world_size, Duration) override {
    note("barrier", key, std::to_string(world_size));
    return {};
  }

 private:
  void note(const char* what, std::string_view key, std::string_view value = {}) {
    calls.push_back(std::string(what) + " " + std::string(key) +
                    (value.empty() ? "" : " " + std::string(value)));
  }

  void note_all(const char* what, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      note(what, name);
    }
  }
};

}  // namespace muster::testing
