// SPDX-License-Identifier: Apache-2.0
// What a worker may say to its launcher, and what it hears of the job (worker/channel/CHANNEL.md).
// For programs that muster starts; part of libmuster_collective.so. Outside of muster every
// function does nothing. Any thread; nothing here waits for the launcher, but for Rounds::next, and
// the first call for its answer. A bool tells whether the launcher was told.
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

// This worker is at this step: two stores into shared memory and a look at the clock.
void progress(std::uint64_t step);

// Something is wrong, in words for people; it is reported. And all is well again.
bool unhealthy(std::string_view why);
bool healthy();

// Adds a JSON value to events.jsonl: at most 8 KiB, and 256 KiB in all. False also where it is
// none.
bool event(std::string_view json);

// It has begun to work in the present round.
bool ready();

// The number of the round: the same on all ranks, greater with each round. 0: no muster.
[[nodiscard]] std::uint64_t epoch();

// Whether this worker has been asked to end.
[[nodiscard]] bool stopping();

// -- the members of the job ---------------------------------------------------------------------

// Consecutive ranks of one node.
struct NodeRanks {
  std::string node;
  int rank = 0;
  int count = 0;
};

// The members from now on.
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
  std::vector<NodeRanks> left;    // nodes that are gone, with their ranks of the round before
  std::vector<NodeRanks> joined;  // nodes that are new
};

// These ranks of the round have ended.
struct Gone {
  std::uint64_t epoch = 0;
  int rank = 0;
  int count = 1;
  bool failed = true;
  std::string why;
};

// This node's workers are asked to end, and killed after so many seconds.
struct Stop {
  double seconds = 0;
  std::string why;
};

using News = std::variant<Round, Gone, Stop>;

// The present round, and then each Gone, Stop and Round as it happens. One thread at a time.
class Rounds {
 public:
  Rounds();
  ~Rounds();
  Rounds(Rounds&&) noexcept;
  Rounds& operator=(Rounds&&) noexcept;

  // None: there was nothing in that time, or ended() is true.
  [[nodiscard]] std::optional<News> next(Duration timeout);

  // No launcher, or it has ended the connection.
  [[nodiscard]] bool ended() const { return connection_ == nullptr; }

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace muster::worker
