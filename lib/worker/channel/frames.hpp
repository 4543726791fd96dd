// SPDX-License-Identifier: Apache-2.0
// The frames of the channel between an agent and its workers: one JSON object a line, bounded.
// CHANNEL.md is the format for people. The agent decodes what workers say, which is hostile; the
// libraries for workers decode what the agent says. Values and pure functions; any thread.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster::channel {

inline constexpr int kVersion = 1;

// One line, without its end.
inline constexpr std::size_t kFrameBytesMax = std::size_t{8} * 1024;
// Objects and lists inside each other.
inline constexpr int kDepthMax = 16;
// Nodes named in one frame, of those that left and of those that are new.
inline constexpr std::size_t kNodesNamedMax = 32;
// Of each name, so that a round with all of them is no longer than a frame may be.
inline constexpr std::size_t kNodeNameBytesMax = 64;

// -- from a worker ----------------------------------------------------------------------------

struct ProgressMade {
  std::uint64_t step = 0;
  bool operator==(const ProgressMade&) const = default;
};

struct Healthy {
  bool operator==(const Healthy&) const = default;
};

struct Unhealthy {
  std::string why;
  bool operator==(const Unhealthy&) const = default;
};

// What the worker wants to have in the job's stream of events.
struct WorkerEvent {
  std::string data;  // any JSON value, as text
  bool operator==(const WorkerEvent&) const = default;
};

// It has begun to work in this round.
struct Ready {
  std::uint64_t epoch = 0;
  bool operator==(const Ready&) const = default;
};

// It wants to hear of rounds from now on, the present one first.
struct Subscribe {
  bool operator==(const Subscribe&) const = default;
};

using WorkerFrame = std::variant<ProgressMade, Healthy, Unhealthy, WorkerEvent, Ready, Subscribe>;

// -- from the agent ---------------------------------------------------------------------------

// The first frame of a connection, with the worker's page (progress_page.hpp) beside it.
struct Hello {
  int version = kVersion;
  std::uint64_t epoch = 0;
  int rank = 0;
  int local_rank = 0;
  bool operator==(const Hello&) const = default;
};

// Consecutive ranks of one node.
struct NodeRanks {
  std::string node;
  int rank = 0;
  int count = 0;
  bool operator==(const NodeRanks&) const = default;
};

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
  std::vector<NodeRanks> left;    // with their ranks of the round before
  std::vector<NodeRanks> joined;  // with their ranks of this one
  bool operator==(const Round&) const = default;
};

// These ranks of the round have ended; others of it are still there.
struct Gone {
  std::uint64_t epoch = 0;
  int rank = 0;
  int count = 1;
  bool failed = true;
  std::string why;
  bool operator==(const Gone&) const = default;
};

// The workers are told to end, and are killed when the seconds have passed.
struct Stop {
  double seconds = 0;
  std::string why;
  bool operator==(const Stop&) const = default;
};

// The last frame of a connection that the agent closes.
struct Refused {
  std::string why;
  bool operator==(const Refused&) const = default;
};

using AgentFrame = std::variant<Hello, Round, Gone, Stop, Refused>;

// -- as lines ---------------------------------------------------------------------------------

// With the end of the line. Text that is no UTF-8 is replaced.
[[nodiscard]] std::string encode(const WorkerFrame& frame);
[[nodiscard]] std::string encode(const AgentFrame& frame);

// A line without its end. None: of a type that this version does not know, to be left out. Error:
// protocol, and the connection is of no more use.
[[nodiscard]] Result<std::optional<WorkerFrame>> decode_worker_frame(std::string_view line);
[[nodiscard]] Result<std::optional<AgentFrame>> decode_agent_frame(std::string_view line);

// From any JSON value. Error: usage: it is none, or the agent would refuse its frame.
[[nodiscard]] Result<WorkerEvent> event_of(std::string_view json);

// Cuts bytes into lines.
class LineReader {
 public:
  void feed(std::string_view bytes) { bytes_ += bytes; }

  // None: there is no whole one yet. Error: protocol, it is too long.
  [[nodiscard]] Result<std::optional<std::string>> next();

  [[nodiscard]] bool has_line() const { return bytes_.contains('\n'); }

 private:
  std::string bytes_;
};

}  // namespace muster::channel
