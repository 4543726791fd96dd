// SPDX-License-Identifier: Apache-2.0
#include "worker/agent_connection.hpp"

#include "base/clock.hpp"
#include "base/unix_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <variant>

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace muster::worker {
namespace {

constexpr std::size_t kReadBytes = channel::kFrameBytesMax;

// False on timeout.
bool wait_readable(int fd, TimePoint until) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_now()).count();
    pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
    // poll() takes whole milliseconds, so round up to wait for the remainder too.
    const int ready =
        ::poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 60'000)));
    if (ready != 0 && !(ready < 0 && errno == EINTR)) {
      return ready > 0;
    }
    if (steady_now() >= until) {
      return false;
    }
  }
}

// A signal handler that interrupts a blocked connect() leaves the socket unconnected, so retry.
bool connect_to(int fd, const UnixAddress& address, TimePoint until) {
  while (::connect(fd, address.raw(), address.size) != 0) {
    if (errno != EINTR || steady_now() >= until) {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<AgentConnection> AgentConnection::open(std::string_view name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // SO_SNDTIMEO also limits connect(), which blocks while the backlog is full.
  const timeval most{
      .tv_sec = std::chrono::duration_cast<std::chrono::seconds>(kAnswerTimeout).count(),
      .tv_usec = 0};
  static_cast<void>(::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)));
  const UnixAddress address = abstract_address(name);
  if (!fd || !connect_to(fd.get(), address, steady_now() + kAnswerTimeout)) {
    return std::unexpected(system_error("cannot connect to the launcher", errno));
  }
  // Any user can bind a name in the abstract namespace, so accept only a peer with our user id.
  const auto who = peer_of(fd.get());
  if (!who || who->uid != ::geteuid()) {
    return failure(Errc::not_possible, "the launcher's socket belongs to another user");
  }
  AgentConnection out(std::move(fd));
  if (auto greeted = out.receive_hello(); !greeted) {
    return std::unexpected(greeted.error());
  }
  return out;
}

Result<void> AgentConnection::receive_hello() {
  const TimePoint until = steady_now() + kAnswerTimeout;
  if (!wait_readable(fd_.get(), until)) {
    return failure(Errc::timed_out, "the launcher does not respond");
  }
  std::array<char, kReadBytes> bytes{};
  auto received = receive_some_with_fds(fd_.get(), bytes);
  lines_.feed({bytes.data(), received.bytes});
  if (!received.fds.empty()) {
    if (auto page = channel::ProgressPage::map(std::move(received.fds.front()))) {
      page_ = std::move(*page);
    }
  }
  const auto first = next(until - steady_now());
  if (!first || !*first) {
    return first ? failure(Errc::timed_out, "the launcher does not respond")
                 : std::unexpected(first.error());
  }
  if (!std::holds_alternative<channel::Hello>(**first)) {
    return failure(Errc::closed, "the launcher refused this process");
  }
  return {};
}

// The kernel writes a line this short completely or not at all.
Result<bool> AgentConnection::send(const channel::WorkerFrame& frame) {
  const std::string line = channel::encode(frame);
  const auto count = ::send(fd_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count == static_cast<ssize_t>(line.size())) {
    return true;
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return false;
  }
  return failure(Errc::closed, "the launcher closed the connection");
}

void AgentConnection::shut_down() {
  static_cast<void>(::shutdown(fd_.get(), SHUT_RDWR));
}

// Skips frame types that this version does not know.
Result<std::optional<channel::AgentFrame>> AgentConnection::take_frame() {
  while (true) {
    const auto line = lines_.next();
    if (!line || !*line) {
      return line ? Result<std::optional<channel::AgentFrame>>(std::nullopt)
                  : std::unexpected(line.error());
    }
    auto frame = channel::decode_agent_frame(**line);
    if (!frame || *frame) {
      return frame;
    }
  }
}

Result<std::optional<channel::AgentFrame>> AgentConnection::next(Duration timeout) {
  const TimePoint now = steady_now();
  const TimePoint until = timeout > TimePoint::max() - now ? TimePoint::max() : now + timeout;
  while (true) {
    auto frame = take_frame();
    if (!frame || *frame) {
      return frame;
    }
    if (!wait_readable(fd_.get(), until)) {
      return std::nullopt;
    }
    std::array<char, kReadBytes> bytes{};
    const auto count = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
      return failure(Errc::closed, "the launcher closed the connection");
    }
    lines_.feed({bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))});
  }
}

}  // namespace muster::worker
