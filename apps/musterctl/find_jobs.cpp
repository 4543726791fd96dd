// SPDX-License-Identifier: Apache-2.0
#include "find_jobs.hpp"

#include "base/clock.hpp"
#include "base/unix_socket.hpp"
#include "io/wait_ready.hpp"
#include "process/tree/descendants.hpp"
#include "process_status.hpp"
#include "status/job_socket.hpp"
#include "status/json.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include <poll.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kOk = 200;
constexpr Duration kConnectAgain = std::chrono::milliseconds(20);

enum class Stage {
  connecting,  // the backlog is full
  waiting,     // waiting for the rest of the answer
  answered,
  gone,  // it belongs to another user, or the launcher has exited
};

struct Query {
  FoundJob job;
  std::optional<HttpStream> answer;
  Stage stage = Stage::connecting;
};

// The name of a job's socket in a line from /proc/net/unix; empty for any other line.
std::string job_socket_in(const std::string& line) {
  const auto at = line.rfind(" @" + std::string(kJobSocketPrefix));
  return at == std::string::npos ? "" : line.substr(at + 2);
}

std::vector<std::string> job_sockets() {
  std::vector<std::string> out;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    if (std::string name = job_socket_in(line); !name.empty()) {
      out.push_back(std::move(name));
    }
  }
  // The table also has a line for each connection to a socket.
  std::ranges::sort(out);
  const auto rest = std::ranges::unique(out);
  out.erase(rest.begin(), rest.end());
  return out;
}

Stage begin(Query& query) {
  auto fd = connect_job_socket(query.job.source.socket);
  if (!fd) {
    return fd.error().code == Errc::timed_out ? Stage::connecting : Stage::gone;
  }
  const auto peer = peer_of(fd->get());
  auto answer = HttpStream::begin(std::move(*fd), kJobSocketHost, "/v1/status", steady_now());
  if (!peer || !answer) {
    return Stage::gone;
  }
  query.job.agent_pid = peer->pid;
  query.answer = std::move(*answer);
  return Stage::waiting;
}

Stage take(Query& query) {
  const auto complete = query.answer->take_ready();
  if (complete && !*complete) {
    return Stage::waiting;
  }
  auto text = complete ? query.answer->read_all(steady_now()) : std::unexpected(complete.error());
  if (!text || text->empty() || query.answer->status() != kOk) {
    return Stage::gone;
  }
  query.job.launcher_pid = static_cast<pid_t>(number_of(parse_json(*text), "launcher_pid"));
  query.job.status = std::move(*text);
  return Stage::answered;
}

bool any_in(const std::vector<Query>& queries, Stage stage) {
  return std::ranges::find(queries, stage, &Query::stage) != queries.end();
}

// One iteration: retries pending connections, then reads available data. If poll() fails or is
// interrupted by a signal, nothing changes.
void advance(std::vector<Query>& queries, TimePoint deadline) {
  std::vector<pollfd> fds;
  for (Query& query : queries) {
    if (query.stage == Stage::connecting) {
      query.stage = begin(query);
    }
    fds.push_back({query.stage == Stage::waiting ? query.answer->fd() : -1, POLLIN, 0});
  }
  const bool again = any_in(queries, Stage::connecting);
  const TimePoint until = again ? std::min(deadline, steady_now() + kConnectAgain) : deadline;
  if ((!again && !any_in(queries, Stage::waiting)) ||
      ::poll(fds.data(), fds.size(), poll_timeout(until)) <= 0) {
    return;
  }
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents != 0) {
      queries[i].stage = take(queries[i]);
    }
  }
}

// Agents of this user (or, for root, of all users) that are not in `known`. The kernel reports the
// process behind a socket only after the connection has entered the backlog.
std::vector<FoundJob> other_agents(const std::vector<FoundJob>& known) {
  std::vector<FoundJob> out;
  for (const pid_t pid : all_pids()) {
    const auto row = read_process(pid);
    const auto status = read_process_status(pid);
    const bool ours = status && (::geteuid() == 0 || status->user == ::geteuid());
    if (ours && row && row->command == kAgentName &&
        std::ranges::find(known, pid, &FoundJob::agent_pid) == known.end()) {
      out.push_back({{}, "", 0, pid});
    }
  }
  return out;
}

std::vector<FoundJob> results(std::vector<Query> queries) {
  const bool full = any_in(queries, Stage::connecting);
  std::vector<FoundJob> out;
  for (Query& query : queries) {
    if (query.stage == Stage::answered || query.stage == Stage::waiting) {
      out.push_back(std::move(query.job));
    }
  }
  if (full) {
    std::ranges::move(other_agents(out), std::back_inserter(out));
  }
  for (FoundJob& job : out) {
    if (job.is_silent()) {
      const auto row = read_process(job.agent_pid);
      job.launcher_pid = row ? row->parent : 0;
    }
  }
  std::ranges::sort(out, {}, &FoundJob::launcher_pid);
  return out;
}

}  // namespace

std::vector<FoundJob> find_jobs(Duration timeout) {
  const TimePoint deadline = steady_now() + timeout;
  std::vector<Query> queries;
  for (std::string& socket : job_sockets()) {
    Query query;
    query.job.source.socket = std::move(socket);
    queries.push_back(std::move(query));
  }
  bool last = false;  // after the deadline, read one more time: we may have been paused
  while (!last) {
    last = steady_now() >= deadline;
    advance(queries, deadline);
    last = last || (!any_in(queries, Stage::connecting) && !any_in(queries, Stage::waiting));
  }
  return results(std::move(queries));
}

}  // namespace muster
