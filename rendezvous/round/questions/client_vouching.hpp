// SPDX-License-Identifier: Apache-2.0
// Vouching: the node whose agent serves the workers' store verifies each client from another host.
// It asks the node with the client's address whether the connection belongs to the job. The query
// goes through the coordinator, because every node is connected to it. ClientVouching is the
// querying side; AddressBook is the coordinator's lookup table. Parts of NodeCore; pure;
// value-like.
#pragma once

#include "rendezvous/round/node_effects.hpp"
#include "rendezvous/round/node_events.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Limit on pending queries; further clients are refused.
inline constexpr std::size_t kVouchesMax = 65536;

// An unanswered query is repeated after a sixth of a lease, because the node or the coordinator may
// have lost its connection. It is abandoned after a whole lease, because a node that has been out
// of contact for that long counts as lost.
[[nodiscard]] constexpr Duration vouch_again_after(Duration lease) {
  return lease / 6;
}

[[nodiscard]] constexpr Duration vouch_within(Duration lease) {
  return lease;
}

class ClientVouching {
 public:
  ClientVouching(NodeId self, Duration lease) : self_(self), lease_(lease) {}

  // `to` is the connection to the coordinator, if there is one.
  void want(TimePoint now, const VouchWanted& wanted, std::optional<LinkId> to, NodeEffects& out);
  void take(const Vouched& said, NodeEffects& out);
  // Repeats all queries, because the coordinator or the connection to it has changed.
  void ask_all(TimePoint now, std::optional<LinkId> to, NodeEffects& out);
  void tick(TimePoint now, std::optional<LinkId> to, NodeEffects& out);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] std::size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    StoreClient client;
    TimePoint give_up{};
    std::uint64_t sequence = 0;  // the last query; answers to earlier ones are ignored
    std::uint32_t noes = 0;
    Vouched last{};  // the most informative answer
  };

  void ask(Waiting& waiting, std::uint64_t client, LinkId to, NodeEffects& out);
  void end(std::uint64_t client, std::optional<Error> refused, NodeEffects& out);

  NodeId self_;
  Duration lease_;
  std::map<std::uint64_t, Waiting> waiting_;            // by client, oldest first
  std::map<std::uint64_t, std::uint64_t> by_sequence_;  // maps queries to clients
  std::uint64_t sequence_ = 0;
  TimePoint again_{};
  bool warned_ = false;
};

// Why a client is refused, and what to do. `client` is its address.
[[nodiscard]] std::string describe_refusal(const Vouched& said, const std::string& client);

// Maps addresses to the members of a round. Each member has the addresses that it announced and the
// source address of its connection. Rebuilt when one of these changes.
class AddressBook {
 public:
  void clear() { round_.reset(); }

  [[nodiscard]] bool is_of(const RoundPtr& round) const { return round_ == round; }

  void begin(const RoundPtr& round);
  void add(std::string_view address, NodeId node);

  [[nodiscard]] std::vector<NodeId> find(std::string_view address) const;

 private:
  RoundPtr round_;
  std::multimap<std::string, NodeId, std::less<>> nodes_;
};

}  // namespace muster
