// SPDX-License-Identifier: Apache-2.0
// Frames of the channel between an agent and its workers: one JSON object per line, with limits on
// size and depth. CHANNEL.md documents the format. The agent decodes untrusted frames from
// workers; the worker libraries decode frames from the agent. Values and pure functions; any
// thread.
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

// Maximum length of a line, without its newline.
inline constexpr std::size_t kFrameBytesMax = std::size_t{8} * 1024;
// Nesting depth of objects and lists.
inline constexpr int kDepthMax = 16;
// Nodes listed in one frame, for each of `left` and `joined`.
inline constexpr std::size_t kNodesNamedMax = 32;
// Maximum length of a name, so that a round with the maximum number of nodes fits into one frame.
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

// A value for the job's event stream.
struct WorkerEvent {
  std::string data;  // any JSON value, as text
  bool operator==(const WorkerEvent&) const = default;
};

// The worker has started work in this round.
struct Ready {
  std::uint64_t epoch = 0;
  bool operator==(const Ready&) const = default;
};

// The worker wants to receive rounds from now on, starting with the current one. `mends`: it
// continues to run when other ranks are replaced.
struct Subscribe {
  bool mends = false;
  bool operator==(const Subscribe&) const = default;
};

// The worker's library has received the news that another rank was lost. `arrived`: the worker has
// also left its step, and waits until all ranks have the job's state.
struct Heard {
  bool arrived = false;
  bool operator==(const Heard&) const = default;
};

// The worker has saved its state as of this step.
struct Saved {
  std::uint64_t step = 0;
  bool operator==(const Saved&) const = default;
};

// The sending process, a descendant of a worker, is not part of the job and may outlive it.
struct Outlive {
  bool operator==(const Outlive&) const = default;
};

using WorkerFrame = std::
    variant<ProgressMade, Healthy, Unhealthy, WorkerEvent, Ready, Subscribe, Heard, Saved, Outlive>;

// -- from the agent ---------------------------------------------------------------------------

// The first frame of a connection, sent together with the worker's page (progress_page.hpp).
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
  std::vector<NodeRanks> left;    // with their ranks in the previous round
  std::vector<NodeRanks> joined;  // with their ranks in this round
  bool operator==(const Round&) const = default;
};

// These ranks of the round have exited; the others are still running.
struct Gone {
  std::uint64_t epoch = 0;
  int rank = 0;
  int count = 1;
  bool failed = true;
  std::string why;
  bool operator==(const Gone&) const = default;
};

// The workers must stop; they are killed after `seconds`.
struct Stop {
  double seconds = 0;
  std::string why;
  bool operator==(const Stop&) const = default;
};

// The job will be stopped after `seconds`. Each rank saves its state the first time it polls at
// `step` or a later step. If `step` is empty, it saves at its next poll.
struct Preempt {
  std::optional<std::uint64_t> step;
  double seconds = 0;
  std::string why;
  bool operator==(const Preempt&) const = default;
};

// The last frame before the agent closes a connection.
struct Refused {
  std::string why;
  bool operator==(const Refused&) const = default;
};

using AgentFrame = std::variant<Hello, Round, Gone, Stop, Refused, Preempt>;

// -- as lines ---------------------------------------------------------------------------------

// Includes the newline. Invalid UTF-8 is replaced.
[[nodiscard]] std::string encode(const WorkerFrame& frame);
[[nodiscard]] std::string encode(const AgentFrame& frame);

// Decodes a line without its newline. Empty if this version does not know the frame type; skip the
// line in that case. Error: protocol; the connection is then unusable.
[[nodiscard]] Result<std::optional<WorkerFrame>> decode_worker_frame(std::string_view line);
[[nodiscard]] Result<std::optional<AgentFrame>> decode_agent_frame(std::string_view line);

// Accepts any JSON value. Error: usage, if it is not JSON or the agent would reject the frame.
[[nodiscard]] Result<WorkerEvent> event_of(std::string_view json);

// Splits bytes into lines.
class LineReader {
 public:
  void feed(std::string_view bytes) { bytes_ += bytes; }

  // Empty until a line is complete. Error: protocol, if the line is too long.
  [[nodiscard]] Result<std::optional<std::string>> next();

  [[nodiscard]] bool has_line() const { return bytes_.contains('\n'); }

 private:
  std::string bytes_;
};

}  // namespace muster::channel
