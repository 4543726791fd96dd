// SPDX-License-Identifier: Apache-2.0
#include "job_source.hpp"

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/unix_socket.hpp"
#include "io/connect.hpp"
#include "io/resolver.hpp"
#include "status/job_socket.hpp"
#include "status/json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kOk = 200;

// The name of one that listens, of a line of /proc/net/unix; empty for any other.
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
  // Each connection that it has is a line, too.
  std::ranges::sort(out);
  const auto rest = std::ranges::unique(out);
  out.erase(rest.begin(), rest.end());
  return out;
}

// Anybody may listen on such a name: only our own user's launchers are believed, root asks all.
Result<UniqueFd> connect_unix(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const UnixAddress address = abstract_address(name);
  if (!fd || ::connect(fd.get(), address.raw(), address.size) != 0) {
    return std::unexpected(
        Error{Errc::unreachable, "cannot reach the launcher: " + errno_text(errno)});
  }
  const auto peer = peer_of(fd.get());
  if (!peer || (::geteuid() != 0 && peer->uid != ::geteuid())) {
    return failure(Errc::not_possible, "the job is another user's");
  }
  return fd;
}

Result<UniqueFd> connect_tcp(const Endpoint& to, TimePoint deadline) {
  const auto addresses = resolve_blocking(to.host, deadline - steady_now());
  if (!addresses) {
    return std::unexpected(addresses.error());
  }
  Error last{Errc::unreachable, "'" + to.host + "' has no address"};
  for (const std::string& address : *addresses) {
    const auto there = SocketAddress::parse(address, *to.port);
    if (!there) {
      return std::unexpected(there.error());
    }
    auto fd = connect_until(*there, deadline);
    if (fd) {
      return std::move(*fd);
    }
    last = connect_error(*there, fd.error());
  }
  return std::unexpected(last);
}

std::optional<FoundJob> ask_for_status(const std::string& socket, Duration timeout) {
  FoundJob job;
  job.source.socket = socket;
  const TimePoint deadline = steady_now() + timeout;
  auto answer = job.source.ask("/v1/status", deadline);
  if (!answer) {
    return std::nullopt;  // another user's, or it has just ended
  }
  const auto peer = peer_of(answer->fd());
  auto text = answer->read_all(deadline);
  if (!text || !peer) {
    return std::nullopt;
  }
  job.agent_pid = peer->pid;
  job.launcher_pid = static_cast<pid_t>(number_of(parse_json(*text), "launcher_pid"));
  job.status = std::move(*text);
  return job;
}

}  // namespace

Result<HttpStream> JobSource::ask(const std::string& target, TimePoint deadline) const {
  auto fd = endpoint ? connect_tcp(*endpoint, deadline) : connect_unix(socket);
  if (!fd && endpoint) {
    return failure(fd.error().code,
                   fmt::format("cannot reach {}: {}", endpoint->describe(), fd.error().message));
  }
  if (!fd) {
    return std::unexpected(fd.error());
  }
  auto answer = HttpStream::get(
      std::move(*fd), endpoint ? endpoint->describe() : "localhost", target, deadline);
  if (!answer || answer->status() == kOk) {
    return answer;
  }
  const auto text = answer->read_all(deadline);
  return failure(Errc::protocol,
                 fmt::format("GET {} was answered with {}: {}",
                             target,
                             answer->status(),
                             text ? printable(trim(*text)) : text.error().message));
}

Result<std::string> JobSource::get(const std::string& target, Duration timeout) const {
  const TimePoint deadline = steady_now() + timeout;
  auto answer = ask(target, deadline);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  return answer->read_all(deadline);
}

std::vector<FoundJob> find_jobs(Duration timeout) {
  std::vector<FoundJob> out;
  for (const std::string& socket : job_sockets()) {
    if (auto job = ask_for_status(socket, timeout)) {
      out.push_back(std::move(*job));
    }
  }
  std::ranges::sort(out, {}, &FoundJob::launcher_pid);
  return out;
}

std::string describe(const FoundJob& job) {
  const Json status = parse_json(job.status);
  return fmt::format("pid {}  {}, job {}, {}",
                     job.launcher_pid,
                     printable(text_of(status, "program")),
                     printable(text_of(status, "job")),
                     printable(text_of(status, "phase")));
}

std::vector<FoundJob> chosen_jobs(const ControlOptions& options) {
  std::vector<FoundJob> jobs = find_jobs(options.timeout);
  std::erase_if(jobs, [&](const FoundJob& job) {
    const bool pid_fits =
        !options.pid || job.launcher_pid == *options.pid || job.agent_pid == *options.pid;
    const bool id_fits =
        options.run_id.empty() || text_of(parse_json(job.status), "job") == options.run_id;
    return !pid_fits || !id_fits;
  });
  return jobs;
}

Result<FoundJob> find_job(const ControlOptions& options) {
  std::vector<FoundJob> jobs = chosen_jobs(options);
  if (jobs.empty()) {
    const bool any = !options.pid && options.run_id.empty();
    return failure(Errc::not_found,
                   any ? "no job of yours runs on this machine"
                       : "no such job of yours runs on this machine: see musterctl status");
  }
  if (jobs.size() > 1) {
    return failure(Errc::usage,
                   fmt::format("{} jobs run here: choose one by --pid; {}",
                               jobs.size(),
                               name_some(jobs, [](const FoundJob& job) { return describe(job); })));
  }
  return std::move(jobs.front());
}

Result<JobSource> find_source(const ControlOptions& options) {
  if (options.endpoint) {
    JobSource source;
    source.endpoint = options.endpoint;
    return source;
  }
  auto job = find_job(options);
  return job ? Result<JobSource>(std::move(job->source)) : std::unexpected(job.error());
}

}  // namespace muster
