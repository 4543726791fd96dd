// SPDX-License-Identifier: Apache-2.0
// Vouching: the node whose agent serves the workers' store asks, about each client from another
// machine, the node that has this address whether the connection is one of the job's. The question
// goes through the coordinator, to which every node has a connection. ClientVouching is the side
// that asks, AddressBook what the coordinator needs. Parts of NodeCore; pure; value-like.
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

// Questions that wait at a time; one more is refused.
inline constexpr std::size_t kVouchesMax = 65536;

// A question that has no answer yet is put again after a sixth of a lease, since the node or the
// coordinator may have lost its connection, and given up after a whole one: by then the round has
// been judged.
[[nodiscard]] constexpr Duration vouch_again_after(Duration lease) {
  return lease / 6;
}

[[nodiscard]] constexpr Duration vouch_within(Duration lease) {
  return lease;
}

class ClientVouching {
 public:
  ClientVouching(NodeId self, Duration lease) : self_(self), lease_(lease) {}

  // `to`: the connection to the coordinator, if there is one.
  void want(TimePoint now, const VouchWanted& wanted, std::optional<LinkId> to, NodeEffects& out);
  void take(const Vouched& said, NodeEffects& out);
  // There is another coordinator, or another connection to it.
  void ask_all(TimePoint now, std::optional<LinkId> to, NodeEffects& out);
  void tick(TimePoint now, std::optional<LinkId> to, NodeEffects& out);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] std::size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    StoreClient client;
    TimePoint give_up{};
    std::uint64_t sequence = 0;  // of the last question; answers to earlier ones do not count
    std::uint32_t noes = 0;
    Vouched last{};  // the answer that says most
  };

  void ask(Waiting& waiting, std::uint64_t client, LinkId to, NodeEffects& out);
  void end(std::uint64_t client, std::optional<Error> refused, NodeEffects& out);

  NodeId self_;
  Duration lease_;
  std::map<std::uint64_t, Waiting> waiting_;            // by client, the oldest first
  std::map<std::uint64_t, std::uint64_t> by_sequence_;  // question to client
  std::uint64_t sequence_ = 0;
  TimePoint again_{};
  bool warned_ = false;
};

// Why a client is not let in, and what to do. `client`: its address.
[[nodiscard]] std::string describe_refusal(const Vouched& said, const std::string& client);

// Which members of a round have an address: the one that they told, and the one from which their
// connection comes. Made anew when one of these changes.
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
