// SPDX-License-Identifier: Apache-2.0
// Network: TCP as seen by agents. Bytes arrive in order or not at all. How a connection ends, and
// whether the peer notices, depends on which part died and how. Machines can be cut off (even
// one-way), frozen or without power. The world owns it and forwards its events. Resource.
#pragma once

#include "rendezvous/round/node_events.hpp"
#include "sim/nodes/event_queue.hpp"
#include "sim/nodes/wire_level.hpp"
#include "sim/random.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace muster::sim {

class NetworkUser {
 public:
  // May be called for an agent whose process is stopped. The event is then queued.
  virtual void on_network(std::uint32_t agent, NodeEvent event) = 0;

 protected:
  ~NetworkUser() = default;
};

struct NetworkOptions {
  Duration latency_min = std::chrono::microseconds(50);
  Duration latency_max = std::chrono::microseconds(500);
  Duration tcp_timeout{};     // 0: connections never time out
  Duration resend_max{};      // after a cut has healed
  int dial_lost_percent = 0;  // connection requests without an answer
  int dial_slow_percent = 0;  // connection requests that take up to the caller's timeout
  bool bytes = false;         // level B
};

class Network {
 public:
  Network(EventQueue& queue, Random& random, NetworkUser& user, const NetworkOptions& options);

  std::uint32_t add_machine(std::string name, std::string address);
  void add_agent(std::uint32_t agent, std::uint32_t machine);

  // -- actions of agents --
  void listen(std::uint32_t machine, std::uint16_t port, std::uint32_t agent);
  [[nodiscard]] bool port_free(std::uint32_t machine, std::uint16_t port) const;
  [[nodiscard]] std::uint32_t listener(std::uint32_t machine, std::uint16_t port) const;
  // Closes all of the agent's listeners except `kept`. Pending connections are reset.
  void stop_listening(std::uint32_t agent, std::uint16_t kept = 0);
  void open(std::uint32_t agent, const OpenLink& link);
  void send(std::uint32_t agent, LinkId link, std::shared_ptr<const RoundMessage> message);
  void close(std::uint32_t agent, LinkId link);
  // True if the agent has closed it itself, so that later arrivals are dropped.
  [[nodiscard]] bool dropped(std::uint32_t agent, LinkId link) const;
  // The process has exited. Its kernel, unless it died too, closes the connections.
  void process_gone(std::uint32_t agent, bool kernel_too);

  // -- faults --
  void set_power(std::uint32_t machine, bool on);
  void set_frozen(std::uint32_t machine, bool frozen);
  [[nodiscard]] bool reachable(std::uint32_t from, std::uint32_t to) const;
  // `inside` has one entry per machine. Returns the number of the cut.
  std::uint64_t cut(std::vector<std::uint8_t> inside, bool one_way);
  void heal(std::uint64_t cut);

  [[nodiscard]] bool whole() const { return cuts_.empty(); }

  // Disturbs a random connection of the agent: reset, stall, or black hole.
  void hurt(std::uint32_t agent, int how, Duration length);

  // True while a connection is disturbed.
  [[nodiscard]] bool is_hurt() const { return queue_.now() < hurt_until_; }

  // Resets the connection. Both ends notice it later, before or after data in flight.
  void reset_soon(std::uint32_t agent, LinkId link);
  // Ends random losses and long latencies; black holes become resets.
  void calm();

  void handle(Happening& what);  // kinds syn … overdue

  [[nodiscard]] std::uint64_t sent() const { return sent_; }

  [[nodiscard]] std::uint64_t sent_by(std::uint32_t agent) const { return agents_[agent].sent; }

  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct End {
    std::uint32_t agent = kNobody;
    LinkId link = 0;
    bool open = false;
    bool dropped = false;   // the agent has dropped the connection
    VirtualTime arrival{};  // arrival time of the last item in flight to this end
    std::vector<Happening> held;
    VirtualTime held_since{};
    std::unique_ptr<ByteSide> bytes;
  };

  struct Connection {
    std::array<End, 2> ends;  // 0 is the dialling side
    std::array<std::uint32_t, 2> machines{};
    std::uint16_t port = 0;
    bool dialling = true;
    bool black_hole = false;
    Duration syn_gap = std::chrono::seconds(1);
  };

  struct Machine {
    std::string name;
    std::string address;
    bool power = true;
    bool frozen = false;
    std::vector<std::pair<std::uint16_t, std::uint32_t>> listeners;
  };

  struct AgentEnds {
    std::uint32_t machine = 0;
    bool process = true;
    std::vector<std::uint64_t> links;  // by LinkId: connection * 2 + side + 1; 0 if none
    LinkId next_incoming = 2;
    std::uint64_t sent = 0;
  };

  struct Cut {
    std::uint64_t number;
    std::vector<std::uint8_t> inside;
    bool one_way;  // only from inside to outside
  };

  Duration latency();
  static ByteSide& bytes_of(End& end, int side);
  [[nodiscard]] std::uint32_t find_machine(const std::string& host) const;
  End* end_of(std::uint32_t agent, LinkId link, std::uint64_t& place);
  void bind_link(std::uint32_t agent, LinkId link, std::uint64_t place);
  void put(std::uint32_t connection, int side, Happening what, bool in_order);
  void put_bytes(std::uint32_t number, int side, std::string all);
  void put_end(std::uint32_t connection, int side, LinkEnd how, bool in_order);
  void end_link(std::uint32_t connection, int side, LinkEnd how);
  void send_again();
  void hold(std::uint32_t connection, int side, Happening& what);
  void on_syn(std::uint32_t connection);
  void accept(std::uint32_t connection, std::uint32_t agent);
  void on_opened(std::uint32_t connection);
  void on_arrival(Happening& what);
  void on_flush(std::uint32_t connection, int side);
  void on_overdue(std::uint32_t connection, int side);

  EventQueue& queue_;
  Random& random_;
  NetworkUser& user_;
  NetworkOptions options_;
  std::vector<Machine> machines_;
  std::unordered_map<std::string, std::uint32_t> machine_of_;  // by name and by address
  std::vector<AgentEnds> agents_;
  std::deque<Connection> connections_;
  std::vector<std::pair<std::uint32_t, int>> waiting_;  // ends with held data
  std::vector<Cut> cuts_;
  std::uint64_t next_cut_ = 1;
  VirtualTime hurt_until_{};
  std::uint64_t sent_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace muster::sim
