// SPDX-License-Identifier: Apache-2.0
// EventQueue: future events of a simulated multi-node world, ordered by (virtual time, sequence),
// so that the order never depends on the heap. Optimised for millions of events per run: no
// closures, and heap entries of 24 bytes. VirtualTime belongs to the world; the cores never see it.
// Resource of one world.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace muster::sim {

struct VirtualClock {};

using VirtualTime = std::chrono::time_point<VirtualClock, Duration>;

inline constexpr std::uint32_t kNobody = 0xffffffff;

enum class Kind : std::uint8_t {
  // network
  syn,        // a connection request reaches the remote kernel
  opened,     // the acceptance has reached the caller
  refused,    // the refusal has reached the caller
  dial_over,  // the caller's connect timeout has expired
  arrival,    // data, or the end of the connection, reaches `side`
  flush,      // data delayed by a cut or freeze is resent
  overdue,    // TCP gives up on unacknowledged data
  // agents and their workers
  tick,
  worker_fails,
  workers_die,
  workers_finish,
  noticed,  // the agent learns that its workers have exited
  guard,    // the guard checks whether the agent has renewed its lease
  guard_goes_on,
  guard_dies,
  orphaned,  // the agent learns that its guard is dead
  swept,     // the workers of a dead agent are gone
  exited,
  store_opens,
  endpoint_bound,
  recorded,  // the agent's record is on disk
  details,
  leaves,
  client_connects,
  owner_found,  // an agent has determined the owner of a connection
  stalls,       // an agent's hang limit expires without progress
  looked,       // the agent has inspected its workers
  entry_due,    // the workers enter the epoch of a round or mend
  waits_due,    // the agent reports its workers' wait times
  // the world
  start_place,
  thaw_agent,
  thaw_machine,
  thaw_over,
  heal,
  boot,
};

struct Happening {
  Kind kind = Kind::tick;
  std::uint8_t side = 0;      // side of a connection, or a small number that depends on the kind
  std::uint32_t subject = 0;  // index of a connection, agent, place or machine
  std::uint64_t detail = 0;   // depends on the kind: generation, length, …
  std::shared_ptr<const RoundMessage> message;
  std::shared_ptr<const std::string> bytes;  // level B: bytes instead of the message
};

class EventQueue {
 public:
  [[nodiscard]] VirtualTime now() const { return now_; }

  [[nodiscard]] std::uint64_t popped() const { return popped_; }

  void at(VirtualTime when, Happening what) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.push_back(std::move(what));
    } else {
      slot = free_.back();
      free_.pop_back();
      slots_[slot] = std::move(what);
    }
    heap_.push(Entry{when < now_ ? now_ : when, sequence_++, slot});
  }

  void after(Duration delay, Happening what) { at(now_ + delay, std::move(what)); }

  [[nodiscard]] bool empty() const { return heap_.empty(); }

  [[nodiscard]] VirtualTime next_time() const { return heap_.top().when; }

  // Advances time to the earliest event and returns it.
  [[nodiscard]] Happening pop() {
    const Entry entry = heap_.top();
    heap_.pop();
    now_ = entry.when;
    ++popped_;
    free_.push_back(entry.slot);
    return std::move(slots_[entry.slot]);
  }

  void move_to(VirtualTime when) { now_ = when > now_ ? when : now_; }

 private:
  struct Entry {
    VirtualTime when;
    std::uint64_t sequence;
    std::uint32_t slot;

    bool operator<(const Entry& other) const {  // the heap's top is the maximum, so the earliest
                                                // entry must compare greatest
      return when != other.when ? when > other.when : sequence > other.sequence;
    }
  };

  VirtualTime now_{};
  std::uint64_t sequence_ = 0;
  std::uint64_t popped_ = 0;
  std::priority_queue<Entry> heap_;
  std::vector<Happening> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace muster::sim
