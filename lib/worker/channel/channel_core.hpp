// SPDX-License-Identifier: Apache-2.0
// ChannelCore: the agent's side of the channel to its workers. Takes connections, bytes and news of
// the round; says what is to be sent, closed, told. Who speaks is decided by the process that
// connected, never by what it says. Whatever a worker does costs the others nothing: each limit has
// its name here. Pure: no input or output, time is an argument, effects go to the caller's list.
#pragma once

#include "worker/channel/frames.hpp"
#include "worker/channel/pacer.hpp"
#include "worker/channel/progress.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <sys/types.h>

namespace muster::channel {

// Of one worker and all below it.
inline constexpr std::size_t kConnectionsPerWorker = 16;
// Frames of one worker: so many at once, then so many a second. It waits if it says more.
inline constexpr int kFramesBurst = 1000;
inline constexpr int kFramesPerSecond = 100;
// What a connection has not read of what it was sent.
inline constexpr std::size_t kUnreadBytesMax = std::size_t{64} * 1024;
// What one worker may have written into the job's events: the log has room for others.
inline constexpr std::size_t kEventBytesPerWorker = std::size_t{256} * 1024;
// Of a worker's text that goes into the events.
inline constexpr std::size_t kWhyBytesMax = 500;
// Of the ends in a round, so many are told to one that subscribes later: the last ones.
inline constexpr std::size_t kEndsRepeatedMax = 128;
// How far below a worker a process may be.
inline constexpr int kGenerationsMax = 64;

using ConnectionId = std::uint64_t;

// -- effects ----------------------------------------------------------------------------------

// Send this at once, with the page of the worker beside it.
struct Greet {
  ConnectionId connection = 0;
  int local_rank = 0;
  std::string text;
  bool operator==(const Greet&) const = default;
};

// unsent() has something new.
struct Flush {
  ConnectionId connection = 0;
  bool operator==(const Flush&) const = default;
};

// Read nothing more of it before that time, then call resumed().
struct Hold {
  ConnectionId connection = 0;
  TimePoint until{};
  bool operator==(const Hold&) const = default;
};

// The core has forgotten it. `text`: what to send first, as far as the kernel takes it.
struct Close {
  ConnectionId connection = 0;
  std::string text;
  bool operator==(const Close&) const = default;
};

// One line for people.
struct Warn {
  std::string text;
  bool operator==(const Warn&) const = default;
};

// For the job's stream of events.
struct Said {
  int local_rank = 0;
  int rank = 0;
  std::variant<Healthy, Unhealthy, WorkerEvent, Ready> what;
  bool operator==(const Said&) const = default;
};

using Effect = std::variant<Greet, Flush, Hold, Close, Warn, Said>;
using Effects = std::vector<Effect>;

// -- who speaks -------------------------------------------------------------------------------

struct Family {
  pid_t parent = 0;
  pid_t group = 0;
};

// What the kernel says of a process; none: it is gone, or cannot be looked at.
using AskFamily = std::function<std::optional<Family>(pid_t)>;

class ChannelCore {
 public:
  // A round of this node's workers begins. `mine` is that of local rank 0; the others' follow.
  void begin_round(TimePoint now, const Round& mine, Effects& out);
  void worker_started(TimePoint now, int local_rank, pid_t pid);

  // Its workers have ended: what they said last is no flood that others would have to be kept from,
  // and must not wait until the next round. Whoever was held back is resumed next.
  void end_round() { paced_ = false; }

  // Here or elsewhere: subscribers hear of it, of one rank once.
  void tell(const Gone& gone, Effects& out);
  void tell(const Stop& stop, Effects& out);

  // The worker for whom a process speaks: itself, or the one that it descends from.
  [[nodiscard]] std::optional<int> worker_of(pid_t pid, const AskFamily& family) const;

  // `local_rank` none: it is nobody's.
  void opened(ConnectionId id, std::optional<int> local_rank, Effects& out);
  void received(TimePoint now, ConnectionId id, std::string_view bytes, Effects& out);
  void resumed(TimePoint now, ConnectionId id, Effects& out);

  void closed(ConnectionId id) { connections_.erase(id); }

  [[nodiscard]] std::string_view unsent(ConnectionId id) const;
  void sent(ConnectionId id, std::size_t bytes);

  // What a worker's page says.
  void take_step(int local_rank, const StepTold& told);
  [[nodiscard]] TimePoint started(int local_rank) const;
  // One for each local rank of this node.
  [[nodiscard]] std::vector<Progress> progress() const;

 private:
  struct Connection {
    int local_rank = 0;
    bool subscribed = false;
    bool held = false;
    LineReader lines;
    std::string unsent;
  };

  struct Worker {
    TimePoint started{};
    std::optional<std::uint64_t> step;
    TimePoint step_time{};
    std::optional<std::string> unhealthy;
    bool ready = false;
    bool warned = false;
    bool events_ended = false;
    std::size_t event_bytes = 0;  // of the whole job
    Pacer pacer{kFramesBurst, kFramesPerSecond};
  };

  [[nodiscard]] Round round_of(int local_rank) const;

  [[nodiscard]] int rank_of(int local_rank) const { return round_.rank + local_rank; }

  [[nodiscard]] Worker& worker(int local_rank);
  [[nodiscard]] std::vector<ConnectionId> subscribers() const;
  void send(ConnectionId id, const AgentFrame& frame, Effects& out);
  void subscribe(ConnectionId id, Effects& out);
  void send_to_subscribers(const AgentFrame& frame, Effects& out);
  void refuse(ConnectionId id, const std::string& why, Effects& out);
  void warn(int local_rank, const std::string& what, Effects& out);
  void read_frames(TimePoint now, ConnectionId id, Effects& out);
  [[nodiscard]] bool hold(TimePoint now, ConnectionId id, Effects& out);
  void take(TimePoint now, ConnectionId id, const WorkerFrame& frame, Effects& out);
  void note(int local_rank, std::size_t bytes, const Said& said, Effects& out);

  Round round_;  // of local rank 0
  bool paced_ = true;
  std::vector<Worker> workers_;
  std::map<pid_t, int> pids_;
  // What this round's subscribers were told, for those that come later.
  std::vector<Gone> gone_;
  std::optional<Stop> stop_;
  std::map<ConnectionId, Connection> connections_;
};

}  // namespace muster::channel
