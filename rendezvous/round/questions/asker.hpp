// SPDX-License-Identifier: Apache-2.0
// Asker: a coordinator's questions to nodes that do not follow it: do you live, and whom do you
// follow? One short connection each, again and again. Part of RoundCore; pure, value-like.
#pragma once

#include "base/endpoint.hpp"
#include "base/time.hpp"
#include "rendezvous/round/node_events.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// An answer of the network about one target.
struct AskResult {
  enum class What : std::uint8_t { gone, alive, silent };
  What what = What::silent;
  NodeId node = 0;             // whom we asked for; 0: whoever has the endpoint
  std::size_t endpoint = 0;    // which, where node is 0
  std::optional<Claim> claim;  // where it answered
};

inline constexpr Duration kAskInterval = std::chrono::milliseconds(250);
inline constexpr Duration kAskTimeout = std::chrono::seconds(1);

// A guard that still ends the workers of a dead agent accepts and says nothing: asked again soon.
inline constexpr Duration kAskSoonFirst = std::chrono::microseconds(500);
inline constexpr Duration kAskSoonMost = std::chrono::milliseconds(50);

// An endpoint that refuses belongs to a machine that runs: its node may be started again at any
// moment, most likely soon. Asked after a thousandth of the time for which it has refused.
inline constexpr Duration kAskRefusedFirst = std::chrono::milliseconds(10);
inline constexpr Duration kAskRefusedMost = kAskInterval;
inline constexpr int kAskRefusedShare = 1000;

// Connections at one time; the rest of the targets wait for their turn.
inline constexpr std::size_t kAsksMax = 64;

// Targets that are asked once. Anyone on the network can name some: they are few, so that members
// and endpoints are asked beside them.
inline constexpr std::size_t kAskOnceMax = 16;

class Asker {
 public:
  // Link ids are first_link, first_link + 4, …
  explicit Asker(LinkId first_link) : next_link_(first_link) {}

  // Idempotent. Asked at once, and again until forgotten.
  void want(TimePoint now, const NodeInfo& node);
  void want_endpoint(TimePoint now, std::size_t index, const Endpoint& endpoint);
  // Forgotten with its answer, or without one. Nothing happens where kAskOnceMax are asked, or
  // where the node is asked anyway.
  void want_once(TimePoint now, const NodeInfo& node);
  void forget(NodeId node, NodeEffects& out);
  void forget_endpoint(std::size_t index, NodeEffects& out);
  void forget_all(NodeEffects& out);

  // Opens what is due.
  void tick(TimePoint now, NodeEffects& out);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] bool owns(LinkId link) const { return links_.contains(link); }

  [[nodiscard]] bool wants(NodeId node) const { return targets_.contains({node, 0}); }

  void opened(LinkId link, const Hello& hello, NodeEffects& out) const;
  [[nodiscard]] std::optional<AskResult> received(TimePoint now,
                                                  LinkId link,
                                                  const RoundMessage& message,
                                                  NodeEffects& out);
  [[nodiscard]] std::optional<AskResult> ended(TimePoint now, LinkId link, LinkEnd how);

 private:
  using Key = std::pair<NodeId, std::size_t>;

  struct Target {
    std::string host;
    std::uint16_t port = 0;
    LinkId link = 0;
    TimePoint due{};  // to be asked; while it is asked: to answer
    Duration soon = kAskSoonFirst;
    bool once = false;
    // An endpoint that has done nothing else since.
    std::optional<TimePoint> refused_since = std::nullopt;
  };

  void add(TimePoint now, Key key, const std::string& host, std::uint16_t port);
  void drop(Key key, NodeEffects& out);
  void drop_silent(TimePoint now, NodeEffects& out);
  void forget_if_once(const Key& key);
  static void pause_after(TimePoint now, const Key& key, Target& target, LinkEnd how);

  std::map<Key, Target> targets_;
  std::map<LinkId, Key> links_;
  LinkId next_link_;
};

}  // namespace muster
