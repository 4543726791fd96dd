// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/wait_book.hpp"

#include "base/check.hpp"
#include "rendezvous/wire/store_messages.hpp"

#include <algorithm>
#include <utility>

namespace muster {

std::uint64_t WaitBook::cost_of(const std::vector<std::string>& keys) {
  std::uint64_t cost = kWaitCost;
  for (const std::string& key : keys) {
    cost += key.size() + kAwaitedKeyCost;
  }
  return cost;
}

void WaitBook::add(SessionId session, std::vector<std::string> keys, KeyMap& map) {
  MUSTER_CHECK(!keys.empty());
  const WaitId id = next_id_++;
  for (const std::string& key : keys) {
    const auto at = map.find(key);
    MUSTER_CHECK(at != map.end());
    auto& waiters = at->second.make_extras().waiters;
    waiters.insert(waiters.end(), id);
  }
  bytes_ += cost_of(keys);
  const auto missing = static_cast<std::uint64_t>(keys.size());
  Mine& mine = by_session_[session];
  mine.waits.insert(mine.waits.end(), id);  // ids increase
  mine.awaited += missing;
  waits_.emplace(id, Wait{session, missing, std::move(keys)});
}

void WaitBook::wake_all(Extras& extras, std::vector<Push>& out) {
  for (const WaitId id : std::exchange(extras.waiters, {})) {
    arrived(id, out);
  }
}

void WaitBook::wake_first(Extras& extras, std::vector<Push>& out) {
  if (!extras.waiters.empty()) {
    const WaitId id = *extras.waiters.begin();
    extras.waiters.erase(extras.waiters.begin());
    arrived(id, out);
  }
}

void WaitBook::arrived(WaitId id, std::vector<Push>& out) {
  const auto at = waits_.find(id);
  MUSTER_CHECK(at != waits_.end());
  MUSTER_CHECK(at->second.missing > 0);
  if (--at->second.missing > 0) {
    return;
  }
  const SessionId session = at->second.session;
  const std::uint64_t count = at->second.keys.size();
  out.push_back(Push{session, std::string(1, static_cast<char>(kStopWaiting))});
  MUSTER_CHECK(bytes_ >= cost_of(at->second.keys));
  bytes_ -= cost_of(at->second.keys);
  waits_.erase(at);
  const auto mine = by_session_.find(session);
  MUSTER_CHECK(mine != by_session_.end());
  MUSTER_CHECK(mine->second.awaited >= count);
  mine->second.awaited -= count;
  mine->second.waits.erase(id);
  if (mine->second.waits.empty()) {
    by_session_.erase(mine);
  }
}

std::vector<std::string> WaitBook::cancel(SessionId session, KeyMap& map) {
  std::vector<std::string> keys;
  const auto mine = by_session_.find(session);
  if (mine == by_session_.end()) {
    return keys;
  }
  for (const WaitId id : mine->second.waits) {
    const auto wait = waits_.find(id);
    MUSTER_CHECK(wait != waits_.end() && bytes_ >= cost_of(wait->second.keys));
    bytes_ -= cost_of(wait->second.keys);
    for (std::string& key : wait->second.keys) {
      const auto at = map.find(key);
      if (at != map.end() && at->second.extras) {
        at->second.extras->waiters.erase(id);
      }
      keys.push_back(std::move(key));
    }
    waits_.erase(wait);
  }
  by_session_.erase(mine);
  return keys;
}

std::uint64_t WaitBook::awaited(SessionId session) const {
  const auto mine = by_session_.find(session);
  return mine == by_session_.end() ? 0 : mine->second.awaited;
}

}  // namespace muster
