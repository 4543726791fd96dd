// SPDX-License-Identifier: Apache-2.0
// StoreCarrier: the bytes of workers who reach their store through the launchers
// (--store-via=proxy). On a worker's node it takes the worker's connection and makes one of our own
// for it, to the node that has the store; there it connects to the store. Each has a connection to
// itself, so that TCP's flow control reaches from one end to the other. Part of RendezvousNode,
// whose sockets it uses, and whatever protects them. Resource; one thread.
#pragma once

#include "base/fd.hpp"
#include "rendezvous/node/link_sockets.hpp"
#include "rendezvous/round/node_events.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace asio {
class io_context;
}

namespace muster {

// Where the agent is that has the store of a round.
struct CarrierTarget {
  RoundId round;
  std::string address;  // numeric
  std::uint16_t port = 0;
};

// The store of a round, on this machine.
struct CarriedStore {
  RoundId round;
  std::string address;
  std::uint16_t port = 0;
};

class StoreCarrier {
 public:
  // Runs work within a turn of the node, which sends what the work has to say.
  using Turn = std::function<void(const std::function<void()>&)>;

  StoreCarrier(asio::io_context& loop, JobTerms terms, NodeInfo self, Turn turn);
  StoreCarrier(const StoreCarrier&) = delete;
  StoreCarrier& operator=(const StoreCarrier&) = delete;

  ~StoreCarrier() { stop(); }

  // Nothing happens any more; the sockets may be destroyed then.
  void stop();

  // Once, before anything else.
  void use(LinkSockets& sockets);

  // What others bring goes to this store. Without one it is refused; what was under way ends.
  void set_store(std::optional<CarriedStore> store);

  // A worker of this node, whose connection is carried there.
  void carry(UniqueFd worker, const CarrierTarget& target);

  // All that was under way ends.
  void drop_all();

  // True if it is about a connection of ours. Where one becomes ours, the event is replaced by its
  // end, for who knew it so far.
  [[nodiscard]] bool take(NodeEvent& event);

 private:
  struct Stream;
  using StreamPtr = std::shared_ptr<Stream>;

  void hear(const StreamPtr& stream, const RoundMessage& message);
  void adopt(LinkId link, const Hello& hello);
  [[nodiscard]] StreamPtr add(LinkId link, UniqueFd fd);
  void await_input(const StreamPtr& stream);
  void await_output(const StreamPtr& stream);
  void read_some(const StreamPtr& stream);
  void write(const StreamPtr& stream, std::string_view bytes);
  void go_on(const StreamPtr& stream);
  void write_rest(const StreamPtr& stream);
  void link_ended(const StreamPtr& stream);
  void end_if_over(const StreamPtr& stream);
  void end(const StreamPtr& stream);
  void drained(LinkId link);
  void send(LinkId link, const RoundMessage& message);
  void refuse(LinkId link, std::string text);

  asio::io_context& loop_;
  JobTerms terms_;
  NodeInfo self_;
  Turn turn_;
  LinkSockets* sockets_ = nullptr;
  std::optional<CarriedStore> store_;
  std::unordered_map<LinkId, StreamPtr> streams_;
  LinkId next_link_;
};

}  // namespace muster
