// SPDX-License-Identifier: Apache-2.0
// ChannelCore: the agent's side of the channel to its workers. Its inputs are connections, bytes
// and membership changes. It decides what to send, close and report. The connecting process
// determines which worker a frame belongs to, never the frame's content. Limits ensure that one
// worker cannot harm the others. Pure: no I/O, time is an argument, effects go to the caller's
// list.
#pragma once

#include "worker/channel/channel_effects.hpp"
#include "worker/channel/pacer.hpp"
#include "worker/channel/progress.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <sys/types.h>

namespace muster::channel {

// Includes connections of a worker's descendants.
inline constexpr std::size_t kConnectionsPerWorker = 16;
// Rate limit for one worker's frames: initial burst, then frames per second. Excess frames wait.
inline constexpr int kFramesBurst = 1000;
inline constexpr int kFramesPerSecond = 100;
// Limit on unsent bytes per connection.
inline constexpr std::size_t kUnreadBytesMax = std::size_t{64} * 1024;
// One worker's quota in the job's event log, so that the log has space for the others.
inline constexpr std::size_t kEventBytesPerWorker = std::size_t{256} * 1024;
// Maximum length of a worker's `why` text in the event log.
inline constexpr std::size_t kWhyBytesMax = 500;
// A late subscriber receives at most this many of the round's latest Gone frames.
inline constexpr std::size_t kEndsRepeatedMax = 128;
// Maximum number of generations between a worker and its descendant.
inline constexpr int kGenerationsMax = 64;

// -- identifying the sender --------------------------------------------------------------------

struct Family {
  pid_t parent = 0;
  pid_t group = 0;
};

// Looks up a process in the kernel; empty if it has exited or cannot be inspected.
using AskFamily = std::function<std::optional<Family>(pid_t)>;

// The decision after a preemption notice (see Preempt).
struct PreemptNews {
  std::optional<std::uint64_t> step;
  TimePoint deadline{};
  std::string why;
};

class ChannelCore {
 public:
  // Starts a round of this node's workers. `mine` describes local rank 0; the other ranks are
  // derived from it.
  void begin_round(TimePoint now, const Round& mine, Effects& out);
  void worker_started(TimePoint now, int local_rank, pid_t pid);

  // The round continues under a new epoch, and these workers are replaced.
  void begin_mend(std::uint64_t epoch, const std::vector<int>& local_ranks, Effects& out);

  // Call when the round's workers have exited. Their last frames are exempt from the rate limit:
  // they cannot flood the agent and must not wait until the next round. Resume held connections
  // after this call.
  void end_round() { paced_ = false; }

  // Subscribers receive each exit only once.
  void tell(const Gone& gone, Effects& out);
  void tell(const Stop& stop, Effects& out);
  // Later subscribers in this round also receive it.
  void tell(TimePoint now, const PreemptNews& news, Effects& out);

  [[nodiscard]] bool was_replaced(pid_t pid) const { return replaced_.contains(pid); }

  [[nodiscard]] bool is_worker(pid_t pid) const { return pids_.contains(pid); }

  // The worker that a process belongs to: the process itself or an ancestor.
  [[nodiscard]] std::optional<int> worker_of(pid_t pid, const AskFamily& family) const;

  // `local_rank` is empty if the process does not belong to a worker.
  void opened(ConnectionId id, std::optional<int> local_rank, Effects& out);
  void received(TimePoint now, ConnectionId id, std::string_view bytes, Effects& out);
  void resumed(TimePoint now, ConnectionId id, Effects& out);

  void closed(ConnectionId id, Effects& out) { forget(id, out); }

  [[nodiscard]] std::string_view unsent(ConnectionId id) const;
  void sent(ConnectionId id, std::size_t bytes);

  void take_step(int local_rank, const StepTold& told);
  [[nodiscard]] TimePoint started(int local_rank) const;
  // One entry per local rank of this node.
  [[nodiscard]] std::vector<Progress> progress() const;

 private:
  struct Connection {
    int local_rank = 0;
    bool subscribed = false;
    bool mends = false;
    bool held = false;
    Pacer pacer{kFramesBurst, kFramesPerSecond};  // if it mends: not delayed by other connections
    LineReader lines;
    std::string unsent;
  };

  struct Worker {
    TimePoint started{};
    std::optional<std::uint64_t> step;
    TimePoint step_time{};
    std::optional<std::string> unhealthy;
    bool ready = false;
    bool resumed = false;
    bool warned = false;
    bool events_ended = false;
    std::size_t event_bytes = 0;  // total for the whole job
    Pacer pacer{kFramesBurst, kFramesPerSecond};
  };

  [[nodiscard]] Round round_of(int local_rank) const;

  [[nodiscard]] int rank_of(int local_rank) const { return round_.rank + local_rank; }

  [[nodiscard]] Worker& worker(int local_rank);
  [[nodiscard]] std::vector<ConnectionId> subscribers() const;
  void send(ConnectionId id, const AgentFrame& frame, Effects& out);
  void subscribe(TimePoint now, ConnectionId id, Effects& out);
  void send_to_subscribers(const AgentFrame& frame, Effects& out);
  void forget(ConnectionId id, Effects& out);
  void refuse(ConnectionId id, const std::string& why, Effects& out);
  void warn(int local_rank, const std::string& what, Effects& out);
  void read_frames(TimePoint now, ConnectionId id, Effects& out);
  [[nodiscard]] bool hold(TimePoint now, ConnectionId id, Effects& out);
  void take(TimePoint now, ConnectionId id, const WorkerFrame& frame, Effects& out);
  void note(int local_rank, std::size_t bytes, const Said& said, Effects& out);
  [[nodiscard]] bool may_note(int local_rank, std::size_t bytes, Effects& out);

  Round round_;  // as seen by local rank 0
  bool paced_ = true;
  std::vector<Worker> workers_;
  std::map<pid_t, int> pids_;
  std::set<pid_t> replaced_;
  // This round's Gone frames; late subscribers also get them.
  std::vector<Gone> gone_;
  std::optional<Stop> stop_;
  std::optional<PreemptNews> preemption_;
  std::map<ConnectionId, Connection> connections_;
};

}  // namespace muster::channel
