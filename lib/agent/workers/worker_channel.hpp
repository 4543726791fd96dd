// SPDX-License-Identifier: Apache-2.0
// WorkerChannel: the agent's socket for its workers (worker/channel/CHANNEL.md). MUSTER_AGENT
// contains the socket's name. This class is the shell around ChannelCore: it accepts, reads,
// writes, and gets the peer's credentials from the kernel. Emits the workers' messages as events,
// and as a sink it receives the events of the round. Never blocks. Owned by the agent; lives on its
// loop. Resource.
#pragma once

#include "agent/events/event_stream.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "worker/channel/channel_core.hpp"
#include "worker/channel/progress_page.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace muster {

// Limits on the connections of all workers together: the burst size, and the rate per second.
inline constexpr int kChannelAcceptsBurst = 1000;
inline constexpr int kChannelAcceptsPerSecond = 1000;

class WorkerChannel final : public EventSink {
 public:
  // `grace`: the time between a stop request to the workers and SIGKILL. `record_bytes`: memory for
  // the records of all workers on this node, which their replacements read; 0 for none.
  WorkerChannel(asio::io_context& loop,
                EventStream& events,
                Duration grace,
                std::size_t record_bytes = 0);
  ~WorkerChannel() override;
  WorkerChannel(const WorkerChannel&) = delete;
  WorkerChannel& operator=(const WorkerChannel&) = delete;

  // Call before the first round. After an error the workers run without a channel.
  [[nodiscard]] Result<void> open(std::string_view random);

  // Name of the socket in the abstract namespace; empty if it could not be opened.
  [[nodiscard]] const std::string& name() const { return name_; }

  void take(const JobEvent& event) override;

  // `resumed` is called when a worker that continues to run when others are replaced works in the
  // current epoch.
  void when_resumed(std::function<void(int local_rank, std::uint64_t epoch)> resumed) {
    resumed_ = std::move(resumed);
  }

  // Called when such a worker's library has confirmed the loss of another rank, and when the worker
  // has `arrived` (frames.hpp).
  using HeardCallback = std::function<void(int local_rank, Duration longest_pause, bool arrived)>;

  void when_heard(HeardCallback heard) { heard_ = std::move(heard); }

  // `left` is called when such a worker reports that it cannot continue any more.
  void when_left(std::function<void(int local_rank)> left) { left_ = std::move(left); }

  // Progress of each worker on this node, by local rank. Reads the shared pages.
  [[nodiscard]] std::vector<channel::Progress> progress();

  // The last step that each worker reported, by local rank.
  [[nodiscard]] std::vector<std::optional<std::uint64_t>> steps();
  [[nodiscard]] std::optional<std::uint64_t> latest_step();
  // The numbers that each worker has reported, by local rank.
  [[nodiscard]] std::vector<std::vector<channel::NamedNumber>> numbers() const;

  // Whether a running worker on this node checks for preemption notices.
  [[nodiscard]] bool polls_preemption() const;
  // Gives notice to all workers of this round. A worker that sees the notice waits for preempt().
  // After this call, latest_step() includes the steps of workers that have not seen the notice.
  void begin_preemption(TimePoint deadline);
  // Announces the decision to all workers of this round.
  void preempt(const channel::PreemptNews& news);

  // `saved` is called when a worker reports that it has saved its state as of this step.
  void when_saved(std::function<void(int local_rank, std::uint64_t step)> saved) {
    saved_ = std::move(saved);
  }

  // `outlives` is called with the pid of a descendant of a worker that may outlive the job.
  void when_outlives(std::function<void(pid_t pid)> outlives) { outlives_ = std::move(outlives); }

  // Call after a round's workers have exited and before the round's last event. Reads their last
  // messages.
  void end_round();

 private:
  struct Guest;

  void listen();
  void accept_some();
  void accept_after(TimePoint when);
  bool accept_one();
  void greet(const channel::Greet& greet);
  void read_later(channel::ConnectionId id);
  bool read_once(channel::ConnectionId id);
  // Reads what all workers have sent so far. Which ranks can continue is judged when a worker
  // leaves or exits. At that time, frames that other workers sent before may be unread, because
  // each worker has its own socket.
  void read_pending();
  [[nodiscard]] std::vector<channel::ConnectionId> connections() const;
  void write(channel::ConnectionId id);
  void hold(const channel::Hold& hold);
  void resume(channel::ConnectionId id);
  void close(const channel::Close& close);
  void say(const channel::Said& said);
  void let_outlive(const channel::Outlives& wanted);
  void perform(const channel::Effects& effects);
  void begin_round(const JobEvent& event, const event::RoundBegun& begun);
  void begin_mend(const JobEvent& event, const event::RestartDecided& restart);
  void regroup(const JobEvent& event, const event::RegroupAsked& asked);
  void end_worker(const JobEvent& event, const event::WorkerEnded& ended);
  [[nodiscard]] Guest* find(channel::ConnectionId id);
  [[nodiscard]] std::optional<int> speaker(int fd) const;

  asio::io_context& loop_;
  EventStream& events_;
  Duration grace_;
  std::size_t record_bytes_;
  std::string name_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer accept_later_;
  channel::Pacer accepts_{kChannelAcceptsBurst, kChannelAcceptsPerSecond};
  bool is_short_ = false;  // accept failed for lack of descriptors or memory
  channel::ChannelCore core_;
  std::map<channel::ConnectionId, std::unique_ptr<Guest>> guests_;
  channel::ConnectionId last_id_ = 0;
  std::vector<std::optional<channel::ProgressPage>> pages_;  // by local rank
  std::vector<UniqueFd> records_;  // by local rank; they outlive a replaced worker, not the round
  int rank_first_ = 0;             // the rank of local rank 0
  std::function<void(int, std::uint64_t)> resumed_ = [](int, std::uint64_t) {};
  HeardCallback heard_ = [](int, Duration, bool) {};
  std::function<void(int)> left_ = [](int) {};
  std::function<void(int, std::uint64_t)> saved_ = [](int, std::uint64_t) {};
  std::function<void(pid_t)> outlives_ = [](pid_t) {};
  bool reads_pending_ = false;             // read_pending() is running
  std::vector<int> left_ranks_;            // not reported yet
  std::string reason_;                     // why this round is being stopped
  std::set<int> ended_;                    // local ranks of this round that have exited
  std::optional<TimePoint> preempted_at_;  // the deadline, after a notice in this round
};

}  // namespace muster
