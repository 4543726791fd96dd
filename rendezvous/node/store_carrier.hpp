// SPDX-License-Identifier: Apache-2.0
// StoreCarrier: forwards connections of workers that reach their store through the launchers
// (--store-via=proxy). On the worker's node it accepts the worker's connection and opens a separate
// connection to the node that has the store. That node's carrier connects to the store. Each worker
// has its own connection, so TCP flow control works end to end. Part of RendezvousNode; it uses the
// node's sockets and encryption. Resource; one thread.
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

// The address of the agent that has the store of a round.
struct CarrierTarget {
  RoundId round;
  std::string address;  // numeric
  std::uint16_t port = 0;
};

// The store of a round on this node.
struct CarriedStore {
  RoundId round;
  std::string address;
  std::uint16_t port = 0;
};

class StoreCarrier {
 public:
  // Runs a callback in one iteration of the node's event loop. The output is sent at the end of the
  // iteration.
  using Turn = std::function<void(const std::function<void()>&)>;

  StoreCarrier(asio::io_context& loop, JobTerms terms, NodeInfo self, Turn turn);
  StoreCarrier(const StoreCarrier&) = delete;
  StoreCarrier& operator=(const StoreCarrier&) = delete;

  ~StoreCarrier() { stop(); }

  // Stops all activity, after which the sockets may be destroyed.
  void stop();

  // Must be called once, before any other function.
  void use(LinkSockets& sockets);

  // From now on, connects carried connections to this store, or refuses them if it is nullopt.
  // Existing streams are closed.
  void set_store(std::optional<CarriedStore> store);

  // Carries the connection of a local worker to this target.
  void carry(UniqueFd worker, const CarrierTarget& target);

  // Closes all streams.
  void drop_all();

  // True if the event concerns one of our connections. If this class takes over a connection, it
  // replaces the event with LinkClosed, so that the previous owner forgets the connection.
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
