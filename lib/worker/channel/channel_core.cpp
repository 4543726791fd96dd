// SPDX-License-Identifier: Apache-2.0
#include "worker/channel/channel_core.hpp"

#include "base/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace muster::channel {
namespace {

std::string cut(std::string text) {
  if (text.size() > kWhyBytesMax) {
    text.resize(kWhyBytesMax);
    text += "...";
  }
  return text;
}

Preempt frame_of(const PreemptNews& news, TimePoint now) {
  const std::chrono::duration<double> left = news.deadline - now;
  return {news.step, std::max(0.0, left.count()), news.why};
}

}  // namespace

// -- round membership -------------------------------------------------------------------------

// Connections stay open across rounds. The kernel closes the connections of dead processes; a
// process that survives the membership change receives the new round.
void ChannelCore::begin_round(TimePoint now, const Round& mine, Effects& out) {
  round_ = mine;
  paced_ = true;
  pids_.clear();
  replaced_.clear();
  gone_.clear();
  stop_.reset();
  preemption_.reset();
  workers_.resize(static_cast<std::size_t>(std::max(1, mine.local_world_size)));
  for (Worker& one : workers_) {
    const std::size_t event_bytes = one.event_bytes;
    const bool events_ended = one.events_ended;
    one = Worker{};
    one.started = now;
    one.event_bytes = event_bytes;
    one.events_ended = events_ended;
  }
  std::erase_if(connections_, [&](const auto& entry) {
    const bool is_nobodys = static_cast<std::size_t>(entry.second.local_rank) >= workers_.size();
    if (is_nobodys) {
      out.emplace_back(Close{entry.first, {}});
    }
    return is_nobodys;
  });
  for (const ConnectionId id : subscribers()) {
    send(id, round_of(connections_.at(id).local_rank), out);
  }
}

void ChannelCore::begin_mend(std::uint64_t epoch,
                             const std::vector<int>& local_ranks,
                             Effects& out) {
  round_.epoch = epoch;
  round_.left.clear();
  round_.joined.clear();
  gone_.clear();
  for (Worker& one : workers_) {
    one.ready = one.resumed = false;
  }
  for (const int local_rank : local_ranks) {
    for (const auto& [pid, of_worker] : pids_) {
      if (of_worker == local_rank) {
        replaced_.insert(pid);
      }
    }
    std::erase_if(pids_, [&](const auto& entry) { return entry.second == local_rank; });
    worker(local_rank).unhealthy.reset();
  }
  for (const ConnectionId id : subscribers()) {
    send(id, round_of(connections_.at(id).local_rank), out);
  }
}

void ChannelCore::worker_started(TimePoint now, int local_rank, pid_t pid) {
  pids_[pid] = local_rank;
  replaced_.erase(pid);  // the kernel may use a pid again
  worker(local_rank).started = now;
}

void ChannelCore::tell(const Gone& gone, Effects& out) {
  const auto is_this = [&](const Gone& told) {
    return told.rank == gone.rank && told.count == gone.count;
  };
  if (std::ranges::any_of(gone_, is_this)) {
    return;
  }
  gone_.push_back(gone);
  send_to_subscribers(gone, out);
}

void ChannelCore::tell(const Stop& stop, Effects& out) {
  stop_ = stop;
  send_to_subscribers(stop, out);
}

void ChannelCore::tell(TimePoint now, const PreemptNews& news, Effects& out) {
  preemption_ = news;
  send_to_subscribers(frame_of(news, now), out);
}

void ChannelCore::send_to_subscribers(const AgentFrame& frame, Effects& out) {
  for (const ConnectionId id : subscribers()) {
    send(id, frame, out);
  }
}

std::vector<ConnectionId> ChannelCore::subscribers() const {
  std::vector<ConnectionId> out;
  for (const auto& [id, connection] : connections_) {
    if (connection.subscribed) {
      out.push_back(id);
    }
  }
  return out;
}

// Sends the current round, then the Preempt, Gone and Stop frames of this round so far.
void ChannelCore::subscribe(TimePoint now, ConnectionId id, Effects& out) {
  if (std::exchange(connections_.at(id).subscribed, true)) {
    return;
  }
  send(id, round_of(connections_.at(id).local_rank), out);
  if (preemption_) {
    send(id, frame_of(*preemption_, now), out);
  }
  const std::size_t from = gone_.size() - std::min(gone_.size(), kEndsRepeatedMax);
  for (std::size_t i = from; i < gone_.size(); ++i) {
    send(id, gone_[i], out);
  }
  if (stop_) {
    send(id, *stop_, out);
  }
}

Round ChannelCore::round_of(int local_rank) const {
  Round out = round_;
  out.local_rank = local_rank;
  out.rank = rank_of(local_rank);
  return out;
}

ChannelCore::Worker& ChannelCore::worker(int local_rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  MUSTER_CHECK(index < workers_.size());
  return workers_[index];
}

// -- connections ------------------------------------------------------------------------------

// A process group keeps its worker's pid as its id until the group is empty, and only descendants
// of the worker can be members. So orphans that the agent has adopted still belong to their
// worker.
std::optional<int> ChannelCore::worker_of(pid_t pid, const AskFamily& family) const {
  for (int i = 0; i < kGenerationsMax && pid > 1; ++i) {
    if (const auto found = pids_.find(pid); found != pids_.end()) {
      return found->second;
    }
    const auto row = family(pid);
    if (!row) {
      return std::nullopt;
    }
    if (const auto found = pids_.find(row->group); found != pids_.end()) {
      return found->second;
    }
    pid = row->parent;
  }
  return std::nullopt;
}

void ChannelCore::opened(ConnectionId id, std::optional<int> local_rank, Effects& out) {
  if (!local_rank) {
    out.emplace_back(Close{
        id,
        encode(Refused{"this process is neither a worker of this job nor a descendant of one"})});
    return;
  }
  const auto of_this_worker = std::ranges::count_if(
      connections_, [&](const auto& entry) { return entry.second.local_rank == *local_rank; });
  if (static_cast<std::size_t>(of_this_worker) >= kConnectionsPerWorker) {
    warn(*local_rank,
         fmt::format("has more than {} connections to muster; additional connections are closed",
                     kConnectionsPerWorker),
         out);
    out.emplace_back(Close{id, encode(Refused{"too many connections from this worker"})});
    return;
  }
  connections_[id].local_rank = *local_rank;
  out.emplace_back(Greet{
      id, *local_rank, encode(Hello{kVersion, round_.epoch, rank_of(*local_rank), *local_rank})});
}

std::string_view ChannelCore::unsent(ConnectionId id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() ? std::string_view{} : found->second.unsent;
}

void ChannelCore::sent(ConnectionId id, std::size_t bytes) {
  if (const auto found = connections_.find(id); found != connections_.end()) {
    found->second.unsent.erase(0, bytes);
  }
}

void ChannelCore::send(ConnectionId id, const AgentFrame& frame, Effects& out) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) {
    return;  // already closed by an earlier effect
  }
  Connection& connection = found->second;
  const std::string text = encode(frame);
  if (connection.unsent.size() + text.size() > kUnreadBytesMax) {
    warn(connection.local_rank,
         "does not read its messages from muster; its connection is closed",
         out);
    forget(id, out);
    out.emplace_back(Close{id, {}});
    return;
  }
  connection.unsent += text;
  out.emplace_back(Flush{id});
}

// Without its connection, a worker cannot confirm a loss, so the agent must not kill it for that.
void ChannelCore::forget(ConnectionId id, Effects& out) {
  const auto found = connections_.find(id);
  if (found != connections_.end() && found->second.mends) {
    out.emplace_back(HeardOfLoss{found->second.local_rank});
  }
  connections_.erase(id);
}

void ChannelCore::refuse(ConnectionId id, const std::string& why, Effects& out) {
  warn(connections_.at(id).local_rank,
       fmt::format("sent muster {}; its connection is closed", why),
       out);
  forget(id, out);
  out.emplace_back(Close{id, encode(Refused{why})});
}

// Reports only the first problem of a worker in each round.
void ChannelCore::warn(int local_rank, const std::string& what, Effects& out) {
  if (!std::exchange(worker(local_rank).warned, true)) {
    out.emplace_back(Warn{fmt::format("rank {} {}", rank_of(local_rank), what)});
  }
}

// -- frames from workers ----------------------------------------------------------------------

void ChannelCore::received(TimePoint now, ConnectionId id, std::string_view bytes, Effects& out) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) {
    found->second.lines.feed(bytes);
    read_frames(now, id, out);
  }
}

void ChannelCore::resumed(TimePoint now, ConnectionId id, Effects& out) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) {
    found->second.held = false;
    read_frames(now, id, out);
  }
}

void ChannelCore::read_frames(TimePoint now, ConnectionId id, Effects& out) {
  for (auto found = connections_.find(id); found != connections_.end() && !found->second.held;
       found = connections_.find(id)) {
    Connection& connection = found->second;
    if (connection.lines.has_line() && hold(now, id, out)) {
      return;
    }
    const auto line = connection.lines.next();
    if (!line) {
      refuse(id, line.error().message, out);
      return;
    }
    if (!*line) {
      return;
    }
    const auto frame = decode_worker_frame(**line);
    if (!frame) {
      refuse(id, frame.error().message, out);
    } else if (*frame) {
      take(now, id, **frame, out);
    }
  }
}

// Stops reading for a while from a worker that exceeds its rate limit, so that the kernel applies
// backpressure to it.
bool ChannelCore::hold(TimePoint now, ConnectionId id, Effects& out) {
  Connection& connection = connections_.at(id);
  Pacer& pacer = connection.mends ? connection.pacer : worker(connection.local_rank).pacer;
  const auto until = paced_ ? pacer.pass(now) : std::nullopt;
  if (!until) {
    return false;
  }
  connection.held = true;
  warn(connection.local_rank,
       fmt::format("sends more than {} messages per second to muster; throttling it",
                   kFramesPerSecond),
       out);
  out.emplace_back(Hold{id, *until});
  return true;
}

void ChannelCore::take(TimePoint now, ConnectionId id, const WorkerFrame& frame, Effects& out) {
  const int local_rank = connections_.at(id).local_rank;
  Worker& speaker = worker(local_rank);
  const auto said = [&](auto what) { return Said{local_rank, rank_of(local_rank), what}; };
  std::visit(
      [&]<class Frame>(const Frame& one) {
        if constexpr (std::is_same_v<Frame, ProgressMade>) {
          take_step(local_rank, StepTold{one.step, now});
        } else if constexpr (std::is_same_v<Frame, Healthy>) {
          if (std::exchange(speaker.unhealthy, std::nullopt)) {
            note(local_rank, 0, said(one), out);
          }
        } else if constexpr (std::is_same_v<Frame, Unhealthy>) {
          const std::string why = cut(one.why);
          if (std::exchange(speaker.unhealthy, why) != why) {
            note(local_rank, why.size(), said(Unhealthy{why}), out);
          }
        } else if constexpr (std::is_same_v<Frame, WorkerEvent>) {
          note(local_rank, one.data.size(), said(one), out);
        } else if constexpr (std::is_same_v<Frame, Ready>) {
          if (one.epoch == round_.epoch && !std::exchange(speaker.ready, true)) {
            note(local_rank, 0, said(one), out);
          }
          // Another connection of this worker may be ready without being able to survive a mend.
          if (one.epoch == round_.epoch && connections_.at(id).mends &&
              !std::exchange(speaker.resumed, true)) {
            out.emplace_back(Resumed{local_rank, one.epoch});
          }
        } else if constexpr (std::is_same_v<Frame, Heard>) {
          if (connections_.at(id).mends) {
            out.emplace_back(HeardOfLoss{local_rank, one.arrived});
          }
        } else if constexpr (std::is_same_v<Frame, Saved>) {
          // The report of a preemption needs it.
          if (preemption_ || may_note(local_rank, 0, out)) {
            out.emplace_back(SavedStep{local_rank, one.step});
          }
        } else if constexpr (std::is_same_v<Frame, Outlive>) {
          out.emplace_back(Outlives{id});
        } else {
          static_assert(std::is_same_v<Frame, Subscribe>);
          if (std::exchange(connections_.at(id).mends, one.mends) && !one.mends) {
            out.emplace_back(Left{local_rank});
          }
          subscribe(now, id, out);
        }
      },
      frame);
}

void ChannelCore::note(int local_rank, std::size_t bytes, const Said& said, Effects& out) {
  if (may_note(local_rank, bytes, out)) {
    out.emplace_back(said);
  }
}

// The event log is bounded: each worker has its own quota.
bool ChannelCore::may_note(int local_rank, std::size_t bytes, Effects& out) {
  constexpr std::size_t kEnvelopeBytes = 128;
  Worker& speaker = worker(local_rank);
  if (speaker.event_bytes + bytes + kEnvelopeBytes <= kEventBytesPerWorker) {
    speaker.event_bytes += bytes + kEnvelopeBytes;
    return true;
  }
  if (!std::exchange(speaker.events_ended, true)) {
    out.emplace_back(
        Warn{fmt::format("rank {} has sent muster {} KiB of events; further events are "
                         "dropped",
                         rank_of(local_rank),
                         kEventBytesPerWorker >> 10)});
  }
  return false;
}

// -- progress ---------------------------------------------------------------------------------

void ChannelCore::take_step(int local_rank, const StepTold& told) {
  Worker& one = worker(local_rank);
  if (!one.step || told.when >= one.step_time) {
    one.step = told.step;
    one.step_time = told.when;
  }
}

TimePoint ChannelCore::started(int local_rank) const {
  return workers_.at(static_cast<std::size_t>(local_rank)).started;
}

std::vector<Progress> ChannelCore::progress() const {
  std::vector<Progress> out;
  for (const Worker& one : workers_) {
    out.push_back(Progress{one.step, one.step ? one.step_time : one.started, one.unhealthy});
  }
  return out;
}

}  // namespace muster::channel
