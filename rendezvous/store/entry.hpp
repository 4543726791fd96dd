// SPDX-License-Identifier: Apache-2.0
// The store's data for one key. The value and the extras (queue, waiters, watchers) are in one
// struct, so that a request needs only one lookup. Most keys have no extras. Used by StoreCore and
// WaitBook. Value types.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The number of a connection. ServerCore assigns it and reuses it after the session is closed.
using SessionId = std::uint32_t;

using WaitId = std::uint64_t;

struct Extras {
  std::list<std::string> queue;
  std::multiset<WaitId> waiters;  // ascending, so the oldest is first
  std::vector<SessionId> watchers;

  [[nodiscard]] bool empty() const { return queue.empty() && waiters.empty() && watchers.empty(); }
};

struct Entry {
  std::string value;
  bool exists = false;     // has a value; a queue or waiters alone do not count
  std::uint64_t born = 0;  // number of LIST_KEYS requests that began before the key got a value
  std::unique_ptr<Extras> extras;

  [[nodiscard]] Extras& make_extras() {
    if (!extras) {
      extras = std::make_unique<Extras>();
    }
    return *extras;
  }

  // True if a WAIT or CHECK for this key succeeds.
  [[nodiscard]] bool ready() const { return exists || (extras && !extras->queue.empty()); }
};

// Bytes for a session that did not just send a request: the reply to its WAIT, or a watch notice.
struct Push {
  SessionId session = 0;
  std::string bytes;
  bool operator==(const Push&) const = default;
};

// The memory cost of an item in addition to its bytes, for the memory limit. Rounded up from
// measurements.
inline constexpr std::uint64_t kEntryCost = 160;
inline constexpr std::uint64_t kExtrasCost = 160;
inline constexpr std::uint64_t kItemCost = 96;
inline constexpr std::uint64_t kWaitCost = 160;
inline constexpr std::uint64_t kAwaitedKeyCost = 128;

}  // namespace muster
