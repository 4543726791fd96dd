// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/wait_book.hpp"

#include "base/check.hpp"
#include "rendezvous/wire/store_messages.hpp"

#include <utility>

namespace muster {
namespace {

std::uint64_t cost_of(const std::string& key) {
  return key.size() + kAwaitedKeyCost;
}

}  // namespace

WaitId WaitBook::open(SessionId session) {
  const WaitId id = next_id_++;
  Mine& mine = by_session_[session];
  // The session has no other waits, and may be a new client that reuses the id of an earlier one. A
  // new number distinguishes the waits of the two clients (is_cancelled).
  if (mine.waits.empty()) {
    mine.number = next_number_++;
  }
  mine.waits.insert(mine.waits.end(), id);  // ids increase
  waits_.emplace(id, Wait{.session = session, .owner = mine.number});
  bytes_ += kWaitCost;
  return id;
}

void WaitBook::add_key(WaitId id, KeyMap::value_type& node) {
  const auto at = waits_.find(id);
  MUSTER_CHECK(at != waits_.end() && !at->second.sealed);
  auto& waiters = node.second.make_extras().waiters;
  waiters.insert(waiters.end(), id);
  Wait& wait = at->second;
  bytes_ += cost_of(node.first);
  ++wait.missing;
  ++by_session_[wait.session].awaited;
  // Store a copy: once the key is set, its entry may be deleted while the wait still needs other
  // keys.
  wait.keys.push_back(node.first);
}

bool WaitBook::seal(WaitId id, TurnBudget& budget) {
  const auto at = waits_.find(id);
  MUSTER_CHECK(at != waits_.end());
  at->second.sealed = true;
  // Keys that were set while the request waited for its turn did not end the wait (arrived).
  const bool over = at->second.missing == 0;
  if (over) {
    finish(at, budget);
  }
  return over;
}

void WaitBook::wake_all(Extras& extras, TurnBudget& budget, std::vector<Push>& out) {
  if (!extras.waiters.empty()) {
    // Remove the waiters from the entry immediately, because it may change or disappear before they
    // are woken.
    waking_.push_back(std::exchange(extras.waiters, {}));
    wake_more(budget, out);
  }
}

void WaitBook::wake_more(TurnBudget& budget, std::vector<Push>& out) {
  while (!waking_.empty() && !budget.used_up()) {
    auto& ids = waking_.front();
    const WaitId id = *ids.begin();
    ids.erase(ids.begin());
    if (ids.empty()) {
      waking_.pop_front();
    }
    budget.spend(1);
    arrived(id, budget, out);
  }
}

bool WaitBook::prune_first(Extras& extras, TurnBudget& budget) const {
  while (!extras.waiters.empty()) {
    // The wait still exists: clean_next() erases a cancelled wait only after it has left all of its
    // keys.
    const auto wait = waits_.find(*extras.waiters.begin());
    MUSTER_CHECK(wait != waits_.end());
    if (!is_cancelled(wait->second)) {
      return true;
    }
    if (budget.used_up()) {
      return false;
    }
    // The wait still lists this key. clean_next() removes the key from the wait later.
    extras.waiters.erase(extras.waiters.begin());
    budget.spend(1);
  }
  return true;
}

void WaitBook::wake_first(Extras& extras, TurnBudget& budget, std::vector<Push>& out) {
  if (!extras.waiters.empty()) {
    const WaitId id = *extras.waiters.begin();
    extras.waiters.erase(extras.waiters.begin());
    arrived(id, budget, out);
  }
}

// By now, the session's id may belong to a new client, which must not be woken by the previous
// client's waits.
bool WaitBook::is_cancelled(const Wait& wait) const {
  const auto mine = by_session_.find(wait.session);
  return wait.cancelled || mine == by_session_.end() || mine->second.number != wait.owner;
}

void WaitBook::arrived(WaitId id, TurnBudget& budget, std::vector<Push>& out) {
  const auto at = waits_.find(id);
  // Waits in waking_ may have been cancelled, and even freed, since their key was set.
  if (at == waits_.end() || is_cancelled(at->second)) {
    return;
  }
  MUSTER_CHECK(at->second.missing > 0);
  // An unsealed wait does not end: the rest of its request may add further keys.
  if (--at->second.missing > 0 || !at->second.sealed) {
    return;
  }
  out.push_back(Push{at->second.session, std::string(1, static_cast<char>(kStopWaiting))});
  finish(at, budget);
}

void WaitBook::finish(Waits::iterator at, TurnBudget& budget) {
  // unlist() needs the number of keys, so it runs before the keys are moved away.
  unlist(at->second, at->first);
  auto& keys = at->second.keys;
  // A list of keys may take several turns to free. A single key is freed immediately.
  if (keys.size() > 1) {
    freed_.push_back(std::move(keys));
    free_keys(budget);
  } else if (!keys.empty()) {
    uncount(cost_of(keys.front()));
  }
  uncount(kWaitCost);
  waits_.erase(at);
}

void WaitBook::unlist(const Wait& wait, WaitId id) {
  const auto mine = by_session_.find(wait.session);
  MUSTER_CHECK(mine != by_session_.end() && mine->second.awaited >= wait.keys.size());
  mine->second.awaited -= wait.keys.size();
  mine->second.waits.erase(id);
  if (mine->second.waits.empty()) {
    by_session_.erase(mine);
  }
}

void WaitBook::uncount(std::uint64_t cost) {
  MUSTER_CHECK(bytes_ >= cost);
  bytes_ -= cost;
}

void WaitBook::free_keys(TurnBudget& budget) {
  while (!freed_.empty() && !budget.used_up()) {
    auto& keys = freed_.back();
    if (keys.empty()) {
      freed_.pop_back();
    } else {
      uncount(cost_of(keys.back()));
      keys.pop_back();
      budget.spend(1);
    }
  }
}

void WaitBook::cancel(SessionId session) {
  const auto mine = by_session_.find(session);
  if (mine != by_session_.end()) {
    // From now on is_cancelled() is true for these waits, so they need not be visited before they
    // are freed.
    cancelled_.push_back(std::move(mine->second.waits));
    by_session_.erase(mine);
  }
}

void WaitBook::cancel(SessionId session, WaitId id) {
  const auto at = waits_.find(id);
  MUSTER_CHECK(at != waits_.end() && at->second.session == session);
  // The session may have other waits that remain valid, so only this one is marked.
  at->second.cancelled = true;
  unlist(at->second, id);
  cancelled_.push_back({id});
}

std::optional<std::string> WaitBook::clean_next(KeyMap& map) {
  while (!cancelled_.empty()) {
    // Each call returns after one key, so that the caller can stop when its budget is used up.
    auto& ids = cancelled_.front();
    const auto wait = ids.empty() ? waits_.end() : waits_.find(*ids.begin());
    if (ids.empty()) {
      cancelled_.pop_front();
    } else if (wait->second.keys.empty()) {
      uncount(kWaitCost);
      waits_.erase(wait);
      ids.erase(ids.begin());
    } else {
      std::string key = std::move(wait->second.keys.back());
      wait->second.keys.pop_back();
      uncount(cost_of(key));
      // If the key has been set in the meantime, its waiters are in waking_, where arrived() skips
      // this wait.
      if (const auto* const at = map.find(key); at != nullptr && at->second.extras) {
        at->second.extras->waiters.erase(*ids.begin());
      }
      return key;
    }
  }
  return std::nullopt;
}

std::uint64_t WaitBook::awaited(SessionId session) const {
  const auto mine = by_session_.find(session);
  return mine == by_session_.end() ? 0 : mine->second.awaited;
}

}  // namespace muster
