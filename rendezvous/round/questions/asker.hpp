// SPDX-License-Identifier: Apache-2.0
// Asker: a coordinator's queries to nodes that do not follow it. The queries determine whether a
// node is alive and which leader it follows. Asker repeats the queries, with one short connection
// for each. Part of RoundCore; pure, value-like.
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

// The outcome of one query.
struct AskResult {
  enum class What : std::uint8_t { gone, alive, silent };
  What what = What::silent;
  NodeId node = 0;             // the queried node; 0 for an endpoint
  std::size_t endpoint = 0;    // index of the queried endpoint, if node is 0
  std::optional<Claim> claim;  // set if the node answered
};

inline constexpr Duration kAskInterval = std::chrono::milliseconds(250);
inline constexpr Duration kAskTimeout = std::chrono::seconds(1);

// A guard that is still killing a dead agent's workers accepts connections but sends nothing, so
// retry soon.
inline constexpr Duration kAskSoonFirst = std::chrono::microseconds(500);
inline constexpr Duration kAskSoonMost = std::chrono::milliseconds(50);

// An endpoint that refuses connections is on a running host, so its node may restart at any moment,
// most likely soon. The endpoint is retried after 1/1000 of the time that it has been refusing
// connections.
inline constexpr Duration kAskRefusedFirst = std::chrono::milliseconds(10);
inline constexpr Duration kAskRefusedMost = kAskInterval;
inline constexpr int kAskRefusedShare = 1000;

// Limit on concurrent connections. Other targets wait.
inline constexpr std::size_t kAsksMax = 64;

// Limit on the number of targets that are queried once. Any peer can add such targets, so their
// number is small and leaves capacity for members and endpoints.
inline constexpr std::size_t kAskOnceMax = 16;

class Asker {
 public:
  // Link IDs are first_link, first_link + 4, …
  explicit Asker(LinkId first_link) : next_link_(first_link) {}

  // Queries the node immediately, and repeats the query until the target is forgotten. Idempotent.
  void want(TimePoint now, const NodeInfo& node);
  void want_endpoint(TimePoint now, std::size_t index, const Endpoint& endpoint);
  // Forgets the target after one query, whether it was answered or not. Does nothing if kAskOnceMax
  // queries are pending or if the node is already a target.
  void want_once(TimePoint now, const NodeInfo& node);
  void forget(NodeId node, NodeEffects& out);
  void forget_endpoint(std::size_t index, NodeEffects& out);
  void forget_all(NodeEffects& out);

  // Opens all connections that are due.
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
    TimePoint due{};  // time of the next query, or deadline of the pending one
    Duration soon = kAskSoonFirst;
    bool once = false;
    // When the endpoint began to refuse all connections; nullopt if it does not refuse them.
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
