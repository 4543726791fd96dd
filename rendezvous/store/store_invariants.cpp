// SPDX-License-Identifier: Apache-2.0
// Invariants of the store, which hold between two requests and are checked by recounting from the
// keys. Debug builds, tests and fuzzers run these checks. Without them, a total that is off by one
// item would show up only when the memory limit is reached too early or never.
#include "rendezvous/store/store_core.hpp"

#include <algorithm>
#include <map>
#include <ranges>

namespace muster {
namespace {

std::string differ(std::string_view what, std::uint64_t kept, std::uint64_t counted) {
  return std::string(what) + ": counter is " + std::to_string(kept) + ", actual count is " +
         std::to_string(counted);
}

std::string of_key(std::string_view key, std::string_view broken) {
  return "key " + std::string(key) + ": " + std::string(broken);
}

std::string check_entry(std::string_view key, const Entry& entry) {
  if (!entry.exists && !entry.value.empty()) {
    return of_key(key, "has a value but does not exist");
  }
  if (entry.extras && entry.extras->empty()) {
    return of_key(key, "has extras without queue, waiters or watchers");
  }
  // Such entries would use memory that no request can free.
  if (!entry.exists && !entry.extras) {
    return of_key(key, "is empty but kept");
  }
  return {};
}

}  // namespace

std::string WaitBook::check_invariants(const KeyMap& map) const {
  std::map<WaitId, std::uint64_t> missing;
  for (const auto& [key, entry] : std::views::join(map.shards())) {
    for (const WaitId id : entry.extras ? entry.extras->waiters : std::multiset<WaitId>{}) {
      const auto wait = waits_.find(id);
      if (wait == waits_.end() ||
          std::ranges::find(wait->second.keys, key) == wait->second.keys.end()) {
        return of_key(key, "has a waiter that does not wait for it");
      }
      ++missing[id];
    }
  }
  // These waiters have left their keys, but their waits still count the keys as missing.
  for (const auto& ids : waking_) {
    for (const WaitId id : ids) {
      ++missing[id];
    }
  }
  std::string broken = check_waits(missing);
  return broken.empty() ? check_bytes() : broken;
}

std::string WaitBook::check_waits(const std::map<WaitId, std::uint64_t>& missing) const {
  std::map<SessionId, std::uint64_t> awaited;
  std::uint64_t listed = 0;
  for (const auto& [id, wait] : waits_) {
    // The wait is listed only in cancelled_, and its remaining keys are freed step by step.
    if (is_cancelled(wait)) {
      ++listed;
      continue;
    }
    const auto found = missing.find(id);
    const std::uint64_t counted = found == missing.end() ? 0 : found->second;
    // A sealed wait without missing keys should have ended.
    if ((wait.sealed && wait.missing == 0) || wait.missing != counted) {
      return differ("missing keys of a wait", wait.missing, counted);
    }
    if (!by_session_.at(wait.session).waits.contains(id)) {
      return "a wait is not listed for its session";
    }
    // Keys that have since been set still count: they use memory until the wait ends.
    awaited[wait.session] += wait.keys.size();
  }
  for (const auto& [session, mine] : by_session_) {
    listed += mine.waits.size();
    if (mine.awaited != awaited[session]) {
      return differ("awaited keys of a session", mine.awaited, awaited[session]);
    }
  }
  return listed == waits_.size() ? std::string()
                                 : differ("waits of all sessions", listed, waits_.size());
}

std::string WaitBook::check_bytes() const {
  std::uint64_t bytes = kWaitCost * waits_.size();
  const auto add = [&](const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      bytes += key.size() + kAwaitedKeyCost;
    }
  };
  for (const auto& [id, wait] : waits_) {
    add(wait.keys);
  }
  // Keys of finished waits count until they are freed.
  std::ranges::for_each(freed_, add);
  std::size_t cancelled = 0;
  for (const auto& ids : cancelled_) {
    cancelled += ids.size();
  }
  const auto marked =
      std::ranges::count_if(waits_, [this](const auto& one) { return is_cancelled(one.second); });
  if (cancelled != static_cast<std::size_t>(marked)) {
    return differ("cancelled waits", cancelled, static_cast<std::uint64_t>(marked));
  }
  return bytes == bytes_ ? std::string() : differ("bytes of waits", bytes_, bytes);
}

std::string StoreCore::check_watchers() const {
  // A session may watch a key several times, so the numbers must be equal too.
  std::map<std::pair<std::string_view, SessionId>, std::int64_t> balance;
  for (const auto& [session, keys] : watched_) {
    for (const std::string& key : keys) {
      ++balance[{key, session}];
    }
  }
  for (const auto& [key, entry] : std::views::join(keys_.shards())) {
    for (const SessionId session :
         entry.extras ? entry.extras->watchers : std::vector<SessionId>{}) {
      --balance[{key, session}];
    }
  }
  const auto off = std::ranges::find_if(balance, [](const auto& one) { return one.second != 0; });
  return off == balance.end()
             ? std::string()
             : of_key(off->first.first, "its watchers and the sessions' watched keys differ");
}

std::string StoreCore::check_invariants() const {
  std::uint64_t existing = 0;
  std::uint64_t stored = 0;
  for (const auto& [key, entry] : std::views::join(keys_.shards())) {
    if (std::string broken = check_entry(key, entry); !broken.empty()) {
      return broken;
    }
    existing += entry.exists ? 1 : 0;
    stored += key.size() + kEntryCost + entry.value.size();
    for (const std::string& item : entry.extras ? entry.extras->queue : std::list<std::string>{}) {
      stored += item.size() + kItemCost;
    }
  }
  for (const auto& [session, keys] : watched_) {
    for (const std::string& key : keys) {
      stored += key.size() + kItemCost;
    }
  }
  if (existing != key_count_) {
    return differ("keys with a value", key_count_, existing);
  }
  if (stored != stored_) {
    return differ("stored bytes", stored_, stored);
  }
  // Each request checks an upper bound of its needs (fits) before it stores anything.
  if (stored_bytes() > limits_.stored_bytes) {
    return "stored data exceeds the limit";
  }
  std::string broken = waits_.check_invariants(keys_);
  return broken.empty() ? check_watchers() : broken;
}

std::vector<SessionId> StoreCore::sessions() const {
  std::vector<SessionId> out = waits_.sessions();
  for (const auto& [session, keys] : watched_) {
    out.push_back(session);
  }
  if (listing_) {
    out.push_back(listing_->session);
  }
  return out;
}

std::vector<SessionId> WaitBook::sessions() const {
  std::vector<SessionId> out;
  for (const auto& [session, mine] : by_session_) {
    out.push_back(session);
  }
  return out;
}

}  // namespace muster
