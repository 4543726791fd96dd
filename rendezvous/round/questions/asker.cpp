// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/questions/asker.hpp"

#include "rendezvous/round/send_to.hpp"

#include <algorithm>
#include <iterator>

namespace muster {

void Asker::want(TimePoint now, const NodeInfo& node) {
  add(now, {node.id, 0}, node.address, node.port);
}

void Asker::want_endpoint(TimePoint now, std::size_t index, const Endpoint& endpoint) {
  add(now, {0, index}, endpoint.host, endpoint.port.value_or(0));
}

void Asker::add(TimePoint now, Key key, const std::string& host, std::uint16_t port) {
  Target& target =
      targets_.try_emplace(key, Target{.host = host, .port = port, .due = now}).first->second;
  target.once = false;  // a claim may have added the node for a single query
}

// Used for nodes that are named in strangers' claims. Such targets are limited in number and never
// replace our own targets.
void Asker::want_once(TimePoint now, const NodeInfo& node) {
  const auto asked = std::ranges::count_if(targets_, [](const auto& t) { return t.second.once; });
  if (static_cast<std::size_t>(asked) < kAskOnceMax) {
    targets_.try_emplace({node.id, 0},
                         Target{.host = node.address, .port = node.port, .due = now, .once = true});
  }
}

void Asker::forget_if_once(const Key& key) {
  const auto found = targets_.find(key);
  if (found != targets_.end() && found->second.once) {
    targets_.erase(found);
  }
}

void Asker::forget(NodeId node, NodeEffects& out) {
  drop({node, 0}, out);
}

void Asker::forget_endpoint(std::size_t index, NodeEffects& out) {
  drop({0, index}, out);
}

void Asker::drop(Key key, NodeEffects& out) {
  const auto found = targets_.find(key);
  if (found == targets_.end()) {
    return;
  }
  if (found->second.link != 0) {
    links_.erase(found->second.link);
    out.emplace_back(CloseLink{found->second.link});
  }
  targets_.erase(found);
}

void Asker::forget_all(NodeEffects& out) {
  while (!targets_.empty()) {
    drop(targets_.begin()->first, out);
  }
}

// Drops connections to nodes that accepted them but send nothing. Such a node has been suspended,
// or was lost after it accepted the connection.
void Asker::drop_silent(TimePoint now, NodeEffects& out) {
  for (auto at = targets_.begin(); at != targets_.end();) {
    auto& [key, target] = *at;
    if (target.link == 0 || target.due > now) {
      ++at;
      continue;
    }
    out.emplace_back(CloseLink{target.link});
    links_.erase(target.link);
    target.link = 0;
    pause_after(now, key, target, LinkEnd::unreachable);
    at = target.once ? targets_.erase(at) : std::next(at);
  }
}

void Asker::tick(TimePoint now, NodeEffects& out) {
  drop_silent(now, out);
  for (auto& [key, target] : targets_) {
    if (links_.size() >= kAsksMax) {
      return;
    }
    if (target.link != 0 || target.due > now) {
      continue;
    }
    target.link = next_link_;
    next_link_ += 4;                     // the IDs in between belong to other users of links
    target.due = now + 2 * kAskTimeout;  // time for both connect and reply
    links_.emplace(target.link, key);
    out.emplace_back(OpenLink{target.link, target.host, target.port, kAskTimeout});
  }
}

// At the connection limit, the remaining targets wait until a query ends, so they have no deadline.
std::optional<TimePoint> Asker::next_deadline() const {
  std::optional<TimePoint> next;
  const bool is_full = links_.size() >= kAsksMax;
  for (const auto& [key, target] : targets_) {
    if (target.link != 0 || !is_full) {
      next = next ? std::min(*next, target.due) : target.due;
    }
  }
  return next;
}

void Asker::opened(LinkId link, const Hello& hello, NodeEffects& out) const {
  Hello question = hello;
  question.purpose = Purpose::ask;
  send_to(link, std::move(question), out);
}

std::optional<AskResult> Asker::received(TimePoint now,
                                         LinkId link,
                                         const RoundMessage& message,
                                         NodeEffects& out) {
  const auto found = links_.find(link);
  if (found == links_.end()) {
    return std::nullopt;
  }
  const Key key = found->second;
  links_.erase(found);
  out.emplace_back(CloseLink{link});
  Target& target = targets_.at(key);
  target.link = 0;
  // Repeat the query: a node that is alive now may die, or follow another leader, later.
  target.due = now + kAskInterval;
  target.soon = kAskSoonFirst;
  target.refused_since.reset();
  const auto* claim = std::get_if<Claim>(&message);
  AskResult result{AskResult::What::alive, key.first, key.second, std::nullopt};
  if (claim != nullptr) {
    result.claim = *claim;
    // Another agent now listens there, so the agent that we are looking for has exited, and so has
    // its guard.
    if (key.first != 0 && claim->node.id != key.first) {
      result.what = AskResult::What::gone;
    }
  } else if (key.first != 0 && std::holds_alternative<Refuse>(message)) {
    result.what = AskResult::What::gone;  // an agent of another job
  }
  forget_if_once(key);
  return result;
}

// If a node's own port refuses the connection, the node is proven dead, and this is reported. If an
// endpoint refuses the connection, its node may be restarting, so retry soon at first and then less
// and less often.
void Asker::pause_after(TimePoint now, const Key& key, Target& target, LinkEnd how) {
  if (how != LinkEnd::refused || key.first != 0) {
    target.refused_since.reset();
    target.due = now + kAskInterval;
    return;
  }
  const TimePoint since = target.refused_since.value_or(now);
  target.refused_since = since;
  target.due =
      now + std::clamp((now - since) / kAskRefusedShare, kAskRefusedFirst, kAskRefusedMost);
}

std::optional<AskResult> Asker::ended(TimePoint now, LinkId link, LinkEnd how) {
  const auto found = links_.find(link);
  if (found == links_.end()) {
    return std::nullopt;
  }
  const Key key = found->second;
  links_.erase(found);
  Target& target = targets_.at(key);
  target.link = 0;
  // The connection was closed without an answer, either by a guard that is still killing a dead
  // agent's workers, or by a node that is exiting.
  if (how == LinkEnd::closed && key.first != 0) {
    target.due = now + target.soon;
    target.soon = std::min(target.soon * 2, kAskSoonMost);
    forget_if_once(key);
    return std::nullopt;
  }
  pause_after(now, key, target, how);
  forget_if_once(key);
  // A refusal by an endpoint proves nothing about the node that led there.
  const bool gone = how == LinkEnd::refused && key.first != 0;
  return AskResult{
      gone ? AskResult::What::gone : AskResult::What::silent, key.first, key.second, std::nullopt};
}

}  // namespace muster
