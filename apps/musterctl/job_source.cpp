// SPDX-License-Identifier: Apache-2.0
#include "job_source.hpp"

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/unix_socket.hpp"
#include "commands.hpp"
#include "io/connect.hpp"
#include "io/resolver.hpp"
#include "process/descendants.hpp"
#include "status/job_socket.hpp"
#include "status/json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kOk = 200;

// 0: it is not seen from here.
pid_t parent_of(pid_t pid) {
  const auto row = read_process(pid);
  return row ? row->parent : 0;
}

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

constexpr std::string_view kStatus = "/v1/status";
constexpr const char* kLocalHost = "localhost";

// A launcher that has the request and owes the answer.
struct Asked {
  FoundJob job;
  HttpStream answer;
};

// None: it is another user's, or it has just ended.
std::optional<Asked> ask_for_status(const std::string& socket, TimePoint deadline) {
  auto fd = connect_unix(socket);
  const auto peer = fd ? peer_of(fd->get()) : std::nullopt;
  if (!peer) {
    return std::nullopt;
  }
  auto answer = HttpStream::begin(std::move(*fd), kLocalHost, kStatus, deadline);
  if (!answer) {
    return std::nullopt;
  }
  FoundJob job;
  job.source.socket = socket;
  job.agent_pid = peer->pid;
  return Asked{std::move(job), std::move(*answer)};
}

// Those whose answers have begun; empty at the deadline.
std::vector<bool> wait_for_answers(const std::vector<Asked>& asked, TimePoint deadline) {
  std::vector<pollfd> fds;
  for (const Asked& one : asked) {
    fds.push_back({one.answer.fd(), POLLIN, 0});
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      std::max(deadline - steady_now(), Duration::zero()));
  const int count = ::poll(fds.data(), fds.size(), static_cast<int>(left.count()));
  std::vector<bool> out;
  for (const pollfd& one : fds) {
    out.push_back(count > 0 && one.revents != 0);
  }
  return out;
}

// Errors: timed_out; others where it has ended, or is none that we can read.
Result<void> take_answer(Asked& asked, TimePoint deadline) {
  if (const auto head = asked.answer.await_head(deadline); !head) {
    return head;
  }
  auto text = asked.answer.read_all(deadline);
  if (!text) {
    return std::unexpected(text.error());
  }
  if (asked.answer.status() != kOk || text->empty()) {
    return failure(Errc::protocol, "the launcher refuses to answer");
  }
  FoundJob& job = asked.job;
  job.launcher_pid = static_cast<pid_t>(number_of(parse_json(*text), "launcher_pid"));
  job.status = std::move(*text);
  return {};
}

}  // namespace

Result<HttpStream> JobSource::ask(const std::string& target, TimePoint deadline) const {
  auto fd = endpoint ? connect_tcp(*endpoint, deadline) : connect_unix(socket);
  if (!fd) {
    return std::unexpected(fd.error());
  }
  auto answer = HttpStream::get(
      std::move(*fd), endpoint ? endpoint->describe() : kLocalHost, target, deadline);
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
  const TimePoint deadline = steady_now() + timeout;
  std::vector<Asked> asked;
  for (const std::string& socket : job_sockets()) {
    if (auto one = ask_for_status(socket, deadline)) {
      asked.push_back(std::move(*one));
    }
  }
  std::vector<FoundJob> out;
  while (!asked.empty()) {
    const std::vector<bool> ready = wait_for_answers(asked, deadline);
    if (std::ranges::none_of(ready, std::identity{})) {
      break;
    }
    std::vector<Asked> rest;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (!ready[i]) {
        rest.push_back(std::move(asked[i]));
        continue;
      }
      const auto taken = take_answer(asked[i], deadline);
      if (taken || taken.error().code == Errc::timed_out) {
        out.push_back(std::move(asked[i].job));
      }
    }
    asked = std::move(rest);
  }
  for (Asked& silent : asked) {
    out.push_back(std::move(silent.job));
  }
  for (FoundJob& job : out) {
    job.launcher_pid = job.is_silent() ? parent_of(job.agent_pid) : job.launcher_pid;
  }
  std::ranges::sort(out, {}, &FoundJob::launcher_pid);
  return out;
}

std::string describe(const FoundJob& job) {
  if (job.is_silent()) {
    return fmt::format("pid {}  does not answer", job.launcher_pid);
  }
  const Json status = parse_json(job.status);
  return fmt::format("pid {}  {}, job {}, {}",
                     job.launcher_pid,
                     printable(text_of(status, "program")),
                     printable(text_of(status, "job")),
                     printable(text_of(status, "phase")));
}

std::vector<FoundJob> take_silent(std::vector<FoundJob>& jobs) {
  const auto rest =
      std::ranges::stable_partition(jobs, [](const FoundJob& job) { return !job.is_silent(); });
  std::vector<FoundJob> out(std::make_move_iterator(rest.begin()),
                            std::make_move_iterator(rest.end()));
  jobs.erase(rest.begin(), rest.end());
  return out;
}

Error silent_error(const std::vector<FoundJob>& silent, Duration waited) {
  return Error{Errc::unreachable,
               fmt::format("no answer within {} from the launcher{} with pid {} (stopped, or "
                           "overloaded?); musterctl stop --pid ends one",
                           describe(waited),
                           silent.size() == 1 ? "" : "s",
                           name_some(silent, [](const FoundJob& job) {
                             return std::to_string(job.launcher_pid);
                           }))};
}

std::vector<FoundJob> chosen_jobs(const ControlOptions& options) {
  std::vector<FoundJob> jobs = find_jobs(options.time_to_find());
  std::vector<FoundJob> silent;
  if (!options.run_id.empty()) {
    silent = take_silent(jobs);  // they may have that id
  }
  std::erase_if(jobs, [&](const FoundJob& job) {
    const bool pid_fits =
        !options.pid || job.launcher_pid == *options.pid || job.agent_pid == *options.pid;
    const bool id_fits =
        options.run_id.empty() || text_of(parse_json(job.status), "job") == options.run_id;
    return !pid_fits || !id_fits;
  });
  if (!options.run_id.empty() && !silent.empty()) {
    warn(silent_error(silent, options.time_to_find()).message);
  }
  return jobs;
}

Result<FoundJob> choose_job(std::vector<FoundJob> jobs, const ControlOptions& options) {
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

Result<FoundJob> find_job(const ControlOptions& options) {
  auto job = choose_job(chosen_jobs(options), options);
  if (job && job->is_silent()) {
    return std::unexpected(silent_error({*job}, options.time_to_find()));
  }
  return job;
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
