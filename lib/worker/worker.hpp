// SPDX-License-Identifier: Apache-2.0
// Reports from a worker to its launcher, and notifications about the job's membership
// (worker/channel/CHANNEL.md). For programs that muster starts; part of libmuster_collective.so.
// Outside muster, every function is a no-op. Thread-safe. Only Rounds::next and the first call
// wait for the launcher. A bool result is true if the report was sent.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster::worker {

// Reports this worker's step. Costs two stores to shared memory and one clock read.
void progress(std::uint64_t step);

// unhealthy() reports a problem as human-readable text; healthy() withdraws it.
bool unhealthy(std::string_view why);
bool healthy();

// Adds a JSON value to events.jsonl: at most 8 KiB per value and 256 KiB in total. Also returns
// false for invalid JSON.
bool event(std::string_view json);

// Reports that this worker has started work in the current round.
bool ready();

// The round number: the same on all ranks, and increasing. 0 outside muster.
[[nodiscard]] std::uint64_t epoch();

// Whether this worker was asked to stop.
[[nodiscard]] bool stopping();

// -- the members of the job ---------------------------------------------------------------------

// Consecutive ranks of one node.
struct NodeRanks {
  std::string node;
  int rank = 0;
  int count = 0;
};

// The members of the job in a round.
struct Round {
  std::uint64_t epoch = 0;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int group_rank = 0;
  int group_world_size = 1;
  int restarts = 0;
  std::string store_address;
  int store_port = 0;
  std::vector<NodeRanks> left;    // nodes that left, with their ranks in the previous round
  std::vector<NodeRanks> joined;  // new nodes
};

// These ranks of the round have exited.
struct Gone {
  std::uint64_t epoch = 0;
  int rank = 0;
  int count = 1;
  bool failed = true;
  std::string why;
};

// This node's workers must stop; they are killed after `seconds`.
struct Stop {
  double seconds = 0;
  std::string why;
};

using News = std::variant<Round, Gone, Stop>;

// Delivers the current Round, then each further Gone, Stop and Round as it arrives. One thread at a
// time.
class Rounds {
 public:
  Rounds();
  ~Rounds();
  Rounds(Rounds&&) noexcept;
  Rounds& operator=(Rounds&&) noexcept;

  // Empty on timeout or if ended() is true.
  [[nodiscard]] std::optional<News> next(Duration timeout);

  // True if there is no launcher, or after it closed the connection.
  [[nodiscard]] bool ended() const { return connection_ == nullptr; }

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace muster::worker
