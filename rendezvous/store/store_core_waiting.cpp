// SPDX-License-Identifier: Apache-2.0
// Requests whose effects go beyond a key's value: waits, barriers, queues, watches.
#include "base/check.hpp"
#include "rendezvous/store/decimal.hpp"
#include "rendezvous/store/store_core.hpp"
#include "rendezvous/store/turn.hpp"
#include "rendezvous/wire/store_encoder.hpp"

#include <limits>
#include <utility>

namespace muster {

void StoreCore::forget(SessionId session) {
  cancel_wait(session);
  const auto mine = watched_.find(session);
  if (mine == watched_.end()) {
    return;
  }
  for (const std::string& key : mine->second) {
    MUSTER_CHECK(stored_ >= key.size() + kItemCost);
    stored_ -= key.size() + kItemCost;
    if (const auto at = keys_.find(key); at != keys_.end() && at->second.extras) {
      std::erase(at->second.extras->watchers, session);
      drop_if_empty(at);
    }
  }
  watched_.erase(mine);
}

Result<void> StoreCore::wait(const Request& request, Turn& turn) {
  std::vector<std::string> missing;
  std::string_view items = request.items;
  for (std::uint64_t i = 0; i < request.count; ++i) {
    const std::string_view key = take_item(items);
    const auto at = keys_.find(key);
    if (at == keys_.end() || !at->second.ready()) {
      missing.emplace_back(key);
    }
  }
  if (missing.empty()) {
    append_int(turn.reply, kStopWaiting);
    return {};
  }
  return add_wait(std::move(missing), turn);
}

Result<void> StoreCore::add_wait(std::vector<std::string> missing, Turn& turn) {
  const std::uint64_t awaited = waits_.awaited(turn.session) + missing.size();
  if (awaited > limits_.awaited_keys) {
    return failure(Errc::protocol,
                   "a session waits for " + std::to_string(awaited) + " keys; the limit is " +
                       std::to_string(limits_.awaited_keys));
  }
  std::uint64_t cost = kWaitCost;
  for (const std::string& key : missing) {
    cost += 2 * key.size() + kAwaitedKeyCost + kEntryCost + kExtrasCost;
  }
  if (auto room = fits(cost); !room) {
    return room;
  }
  for (const std::string& key : missing) {
    static_cast<void>(node_for(key));
  }
  waits_.add(turn.session, std::move(missing), keys_);
  return {};
}

void StoreCore::cancel_wait(SessionId session) {
  for (const std::string& key : waits_.cancel(session, keys_)) {
    if (const auto at = keys_.find(key); at != keys_.end()) {
      drop_if_empty(at);
    }
  }
}

// The counter is never reset, so a reused key lets callers pass at once, as in the reference
// implementation.
Result<void> StoreCore::barrier(const Request& request, Turn& turn) {
  const auto at = keys_.find(request.key);
  std::int64_t count = 0;
  if (at != keys_.end() && at->second.exists) {
    const auto before = leading_decimal(at->second.value);
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
    assign(node_for(request.key), DecimalText(count).view(), turn);
    append_int(turn.reply, kStopWaiting);
    return {};
  }
  if (auto waits = add_wait({std::string(request.key)}, turn); !waits) {
    return waits;
  }
  // Do not use assign: the arrival of another participant must not wake waiters.
  assign_silently(node_for(request.key).second, DecimalText(count).view());
  return {};
}

Result<void> StoreCore::queue_push(const Request& request, Turn& turn) {
  const std::uint64_t cost = request.value.size() + kItemCost;
  if (auto room = fits(cost + request.key.size() + kEntryCost + kExtrasCost); !room) {
    return room;
  }
  Extras& extras = node_for(request.key).second.make_extras();
  extras.queue.emplace_back(request.value);
  stored_ += cost;
  waits_.wake_first(extras, turn.pushes);
  return {};
}

void StoreCore::queue_pop(std::string_view key, Turn& turn) {
  queue_len(key, turn);
  const auto at = keys_.find(key);
  if (at == keys_.end() || !at->second.extras || at->second.extras->queue.empty()) {
    return;
  }
  auto& queue = at->second.extras->queue;
  append_bytes(turn.reply, queue.front());
  MUSTER_CHECK(stored_ >= queue.front().size() + kItemCost);
  stored_ -= queue.front().size() + kItemCost;
  queue.pop_front();
  drop_if_empty(at);
}

void StoreCore::queue_len(std::string_view key, Turn& turn) const {
  const auto at = keys_.find(key);
  const bool any = at != keys_.end() && at->second.extras;
  const std::size_t length = any ? at->second.extras->queue.size() : 0;
  append_int(turn.reply, static_cast<std::int64_t>(length));
}

Result<void> StoreCore::watch(std::string_view key, Turn& turn) {
  if (auto room = fits(2 * key.size() + kItemCost + kEntryCost + kExtrasCost); !room) {
    return room;
  }
  node_for(key).second.make_extras().watchers.push_back(turn.session);
  watched_[turn.session].emplace_back(key);
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
    turn.pushes.push_back(Push{session, std::move(bytes)});
  }
}

}  // namespace muster
