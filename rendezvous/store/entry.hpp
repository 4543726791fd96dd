// SPDX-License-Identifier: Apache-2.0
// What the store knows about one key. Its value and its extras (queue, waiters, watchers) are in
// one place, so that a request looks its key up once; most keys have no extras. Used by StoreCore
// and WaitBook. Value types.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace muster {

// One connection, numbered by ServerCore; numbers are used again after a session has ended.
using SessionId = std::uint32_t;

using WaitId = std::uint64_t;

struct Extras {
  std::list<std::string> queue;
  std::multiset<WaitId> waiters;  // rising: in the order in which they came
  std::vector<SessionId> watchers;

  [[nodiscard]] bool empty() const { return queue.empty() && waiters.empty() && watchers.empty(); }
};

struct Entry {
  std::string value;
  bool exists = false;  // as a key: a queue or a waiter alone does not make it one
  std::unique_ptr<Extras> extras;

  [[nodiscard]] Extras& make_extras() {
    if (!extras) {
      extras = std::make_unique<Extras>();
    }
    return *extras;
  }

  // Whether a WAIT or CHECK for this key is satisfied.
  [[nodiscard]] bool ready() const { return exists || (extras && !extras->queue.empty()); }
};

struct KeyHash {
  using is_transparent = void;

  [[nodiscard]] std::size_t operator()(std::string_view key) const {
    return std::hash<std::string_view>{}(key);
  }
};

// Unordered for speed; no answer depends on its order (LIST_KEYS sorts).
using KeyMap = std::unordered_map<std::string, Entry, KeyHash, std::equal_to<>>;

// Bytes that a session gets without having asked just now: the end of its WAIT, a watched change.
struct Push {
  SessionId session = 0;
  std::string bytes;
  bool operator==(const Push&) const = default;
};

// What things cost beside their own bytes, for the memory limit; rounded up from measurements.
inline constexpr std::uint64_t kEntryCost = 160;
inline constexpr std::uint64_t kExtrasCost = 160;
inline constexpr std::uint64_t kItemCost = 96;
inline constexpr std::uint64_t kWaitCost = 160;
inline constexpr std::uint64_t kAwaitedKeyCost = 128;

}  // namespace muster
