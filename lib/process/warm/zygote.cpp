// SPDX-License-Identifier: Apache-2.0
#include "process/warm/zygote.hpp"

#include "base/clock.hpp"
#include "process/warm/worker_message.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kAnswerBytesMax = 4096;

struct Pipe {
  UniqueFd out;
  UniqueFd in;
};

Result<Pipe> open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return std::unexpected(system_error("cannot create a pipe for a worker", errno));
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Receives one message; empty if the other end is closed.
std::string receive(int socket) {
  std::array<char, kAnswerBytesMax> buffer{};
  const auto count = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  return count <= 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(count));
}

// Signals are blocked in the launcher or handled by its loop, so no signal interrupts the wait.
bool wait_for_answer(int socket, Duration timeout) {
  const auto until = steady_now() + timeout;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_now());
    pollfd one{.fd = socket, .events = POLLIN, .revents = 0};
    const int count = ::poll(&one, 1, static_cast<int>(std::max<long>(0, left.count())));
    if (count >= 0 || errno != EINTR) {
      return count > 0;
    }
  }
}

// "forked 17"
Result<pid_t> pid_of(const std::string& answer) {
  constexpr std::string_view kForked = "forked ";
  pid_t pid = 0;
  if (answer.starts_with(kForked)) {
    std::from_chars(answer.data() + kForked.size(), answer.data() + answer.size(), pid);
  }
  if (pid > 1) {
    return pid;
  }
  return failure(
      Errc::system,
      "the --warm parent process " + (answer.empty() ? "has exited" : "sent '" + answer + "'"));
}

Zygote::News news_of(const std::string& answer) {
  using What = Zygote::News::What;
  const auto space = std::min(answer.find(' '), answer.size());
  const std::string kind = answer.substr(0, space);
  std::string detail = answer.substr(std::min(space + 1, answer.size()));
  if (kind == "ready") {
    return {What::ready, {}};
  }
  for (const auto& [name, what] : {std::pair{"stale", What::stale},
                                   std::pair{"refused", What::refused},
                                   std::pair{"unknown", What::unknown}}) {
    if (kind == name) {
      return {what, std::move(detail)};
    }
  }
  return {What::ended, {}};
}

}  // namespace

Result<std::unique_ptr<Zygote>> Zygote::start(Poller& poller,
                                              const ProcessSpec& spec,
                                              const InheritedState& inherited,
                                              bool ahead,
                                              Sink sink) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return std::unexpected(system_error("cannot create a socket for warm workers", errno));
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const auto pid = spawn_process(spec, {.in = theirs.get()}, inherited);
  MUSTER_RETURN_IF_ERROR(pid);
  std::unique_ptr<Zygote> zygote(new Zygote(poller, std::move(ours), *pid, std::move(sink)));
  MUSTER_RETURN_IF_ERROR(poller.watch_input(zygote->control_.get(), *zygote));
  zygote->send(ahead ? "ahead" : "prepare");
  return zygote;
}

Zygote::Zygote(Poller& poller, UniqueFd control, pid_t pid, Sink sink)
    : poller_(poller), control_(std::move(control)), pid_(pid), sink_(std::move(sink)) {}

Zygote::~Zygote() {
  poller_.forget(control_.get());
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
  }
}

void Zygote::send(std::string_view question) {
  // If this fails, the closed connection is detected later.
  ::send(control_.get(), question.data(), question.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Zygote::on_ready() {
  const Sink sink = sink_;  // the call may destroy this object
  sink(news_of(receive(control_.get())));
}

// The worker waits for a go-ahead. If we give up on the zygote, we close the pipe instead, and a
// worker that the zygote forks later exits before it does anything.
Result<pid_t> Zygote::fork(const ProcessSpec& spec, const ChildStreams& streams) {
  auto go_ahead = open_pipe();
  auto text = text_file(encode_worker(spec));
  if (!go_ahead || !text) {
    return std::unexpected(go_ahead ? text.error() : go_ahead.error());
  }
  auto files = files_of(*text, streams);
  files.push_back(go_ahead->out.get());
  if (!send_files(control_.get(), "fork", files)) {
    return std::unexpected(system_error("cannot request a forked worker", errno));
  }
  if (!wait_for_answer(control_.get(), kForkTimeout)) {
    return failure(Errc::system, "the --warm parent process does not respond");
  }
  auto pid = pid_of(receive(control_.get()));
  if (pid && ::write(go_ahead->in.get(), "!", 1) != 1) {
    return std::unexpected(system_error("cannot start a forked worker", errno));
  }
  return pid;
}

}  // namespace muster
