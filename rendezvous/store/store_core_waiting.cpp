// SPDX-License-Identifier: Apache-2.0
// Requests whose effects go beyond a key's value: waits, barriers, queues, watches.
#include "base/check.hpp"
#include "rendezvous/store/decimal.hpp"
#include "rendezvous/store/store_core.hpp"
#include "rendezvous/store/turn.hpp"
#include "rendezvous/wire/store_encoder.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace muster {

void StoreCore::forget(SessionId session) {
  waits_.cancel(session);
  clean();
  // A later session with this number must not continue the request.
  partial_.erase(session);
  if (listing_ && listing_->session == session) {
    listing_.reset();
  }
  const auto mine = watched_.find(session);
  if (mine == watched_.end()) {
    return;
  }
  for (const std::string& key : mine->second) {
    MUSTER_CHECK(stored_ >= key.size() + kItemCost);
    stored_ -= key.size() + kItemCost;
  }
  // Visit each key only once, because one search through its watchers removes all watches of this
  // session.
  std::ranges::sort(mine->second);
  const auto repeated = std::ranges::unique(mine->second);
  mine->second.erase(repeated.begin(), repeated.end());
  for (const std::string& key : mine->second) {
    if (auto* const at = keys_.find(key); at != nullptr && at->second.extras) {
      std::erase(at->second.extras->watchers, session);
      drop_if_empty(*at);
    }
  }
  watched_.erase(mine);
}

// A key that is set while the rest of the request waits for its turn counts as present.
Result<void> StoreCore::wait(Request& request, Turn& turn) {
  const auto before = partial_.find(turn.session);
  WaitId id = 0;
  if (before != partial_.end()) [[unlikely]] {
    id = before->second.wait;
    partial_.erase(before);
  }
  if (auto waits = wait_for(request, id, turn); !waits) [[unlikely]] {
    // A refused request must leave no wait behind, even if an earlier turn opened one.
    if (id != 0) {
      waits_.cancel(turn.session, id);
      clean();
    }
    return waits;
  }
  if (request.count > 0) [[unlikely]] {
    partial_[turn.session].wait = id;
    turn.served = Served::partly;
  } else if (id == 0 || waits_.seal(id, budget_)) {
    append_int(turn.reply, kStopWaiting);
  }
  return {};
}

// Adds the missing keys to the wait. Opens the wait at the first missing key.
Result<void> StoreCore::wait_for(Request& request, WaitId& id, Turn& turn) {
  for (; request.count > 0 && !budget_.used_up(); --request.count) {
    const std::string_view key = take_item(request.items);
    const auto* const at = keys_.find(key);
    budget_.spend(1);
    if (at != nullptr && at->second.ready()) {
      continue;
    }
    if (auto added = add_key(key, id, turn); !added) [[unlikely]] {
      return added;
    }
  }
  return {};
}

Result<void> StoreCore::add_key(std::string_view key, WaitId& id, Turn& turn) {
  const std::uint64_t awaited = waits_.awaited(turn.session) + 1;
  if (awaited > limits_.awaited_keys) {
    return failure(Errc::protocol,
                   "a session waits for " + std::to_string(awaited) + " keys; the limit is " +
                       std::to_string(limits_.awaited_keys));
  }
  // The key is stored twice, in the table and in the wait.
  const std::uint64_t cost =
      kWaitCost + 2 * key.size() + kAwaitedKeyCost + kEntryCost + kExtrasCost;
  if (auto room = fits(cost); !room) {
    return room;
  }
  if (id == 0) {
    // Open the wait only now, so that a refused request opens no wait.
    id = waits_.open(turn.session);
  }
  waits_.add_key(id, node_for(key, turn));
  return {};
}

void StoreCore::advance(std::vector<Push>& pushes) {
  waits_.wake_more(budget_, pushes);
  clean();
}

void StoreCore::clean() {
  waits_.free_keys(budget_);
  while (!budget_.used_up()) {
    const auto key = waits_.clean_next(keys_);
    if (!key) {
      return;
    }
    budget_.spend(1);
    if (auto* const at = keys_.find(*key); at != nullptr) {
      drop_if_empty(*at);
    }
  }
}

// The counter is never reset, so callers that reuse a key pass immediately, as in the reference
// implementation.
Result<void> StoreCore::barrier(const Request& request, Turn& turn) {
  const auto* const at = keys_.find(request.key);
  std::int64_t count = 0;
  if (at != nullptr && at->second.exists) {
    const auto before = leading_decimal(at->second.value);
    // The maximum is refused, because adding 1 to it would overflow.
    if (!before || *before == std::numeric_limits<std::int64_t>::max()) {
      return failure(Errc::protocol, "BARRIER on a value that is not a counter: " + at->first);
    }
    count = *before;
  }
  ++count;
  if (auto room = fits(request.key.size() + kEntryCost + sizeof(DecimalText)); !room) {
    return room;
  }
  if (count >= request.number) {
    assign(node_for(request.key, turn), DecimalText(count).view(), turn);
    append_int(turn.reply, kStopWaiting);
    return {};
  }
  WaitId id = 0;
  // add_key() may fail, so change the counter only afterwards.
  if (auto waits = add_key(request.key, id, turn); !waits) {
    return waits;
  }
  // The wait has just got its only key, so it cannot be over yet.
  static_cast<void>(waits_.seal(id, budget_));
  // Do not use assign: the arrival of another participant must not wake waiters.
  assign_silently(node_for(request.key, turn).second, DecimalText(count).view());
  return {};
}

Result<void> StoreCore::queue_push(const Request& request, Turn& turn) {
  const std::uint64_t cost = request.value.size() + kItemCost;
  if (auto room = fits(cost + request.key.size() + kEntryCost + kExtrasCost); !room) {
    return room;
  }
  // One element wakes one waiter that is not cancelled.
  const auto* const at = keys_.find(request.key);
  if (at != nullptr && at->second.extras && !waits_.prune_first(*at->second.extras, budget_))
      [[unlikely]] {
    // Cancelled waits have used up the budget. The element is not queued yet, and the caller passes
    // the whole request again.
    turn.served = Served::partly;
    return {};
  }
  Extras& extras = node_for(request.key, turn).second.make_extras();
  extras.queue.emplace_back(request.value);
  stored_ += cost;
  waits_.wake_first(extras, budget_, turn.pushes);
  return {};
}

void StoreCore::queue_pop(std::string_view key, Turn& turn) {
  queue_len(key, turn);
  auto* const at = keys_.find(key);
  if (at == nullptr || !at->second.extras || at->second.extras->queue.empty()) {
    return;
  }
  auto& queue = at->second.extras->queue;
  append_bytes(turn.reply, queue.front());
  MUSTER_CHECK(stored_ >= queue.front().size() + kItemCost);
  stored_ -= queue.front().size() + kItemCost;
  queue.pop_front();
  drop_if_empty(*at);
}

void StoreCore::queue_len(std::string_view key, Turn& turn) const {
  const auto* const at = keys_.find(key);
  const bool any = at != nullptr && at->second.extras;
  const std::size_t length = any ? at->second.extras->queue.size() : 0;
  append_int(turn.reply, static_cast<std::int64_t>(length));
}

Result<void> StoreCore::watch(std::string_view key, Turn& turn) {
  if (auto room = fits(2 * key.size() + kItemCost + kEntryCost + kExtrasCost); !room) {
    return room;
  }
  const auto mine = watched_.find(turn.session);
  const std::uint64_t watches = (mine == watched_.end() ? 0 : mine->second.size()) + 1;
  if (watches > limits_.watches) {
    return failure(Errc::protocol,
                   "a session watches " + std::to_string(watches) + " keys; the limit is " +
                       std::to_string(limits_.watches));
  }
  node_for(key, turn).second.make_extras().watchers.push_back(turn.session);
  watched_[turn.session].emplace_back(key);
  // Counts the copy in watched_. Forgetting the session subtracts it again.
  stored_ += key.size() + kItemCost;
  append_int(turn.reply, static_cast<std::uint8_t>(WatchNotice::registered));
  return {};
}

void StoreCore::tell_watchers(const KeyMap::value_type& node,
                              WatchNotice notice,
                              std::string_view old_value,
                              Turn& turn) {
  if (!node.second.extras) {
    return;
  }
  for (const SessionId session : node.second.extras->watchers) {
    std::string bytes;
    append_int(bytes, static_cast<std::uint8_t>(notice));
    append_bytes(bytes, node.first);
    append_bytes(bytes, old_value);
    append_bytes(bytes, node.second.value);
    budget_.spend_key(bytes.size());
    turn.pushes.push_back(Push{session, std::move(bytes)});
  }
  spend(0, turn);
}

}  // namespace muster
