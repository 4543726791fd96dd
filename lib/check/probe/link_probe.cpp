// SPDX-License-Identifier: Apache-2.0
#include "check/probe/link_probe.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/stream_writer.hpp"
#include "base/text.hpp"
#include "check/check_json.hpp"
#include "io/connect.hpp"
#include "io/socket_address.hpp"
#include "io/wait_ready.hpp"
#include "rendezvous/server/listener.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <limits>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::check {
namespace {

// A link is measured with small messages for the latency, of which the fastest counts, and then
// with a stream. The stream ends after a time, so that a slow link takes no longer than a fast one.
constexpr int kPings = 20;
constexpr Duration kPingTime = std::chrono::milliseconds(100);  // then at least one has returned
constexpr char kPing = 'p';
constexpr char kStream = 's';  // the stream follows
constexpr Duration kStreamTime = std::chrono::milliseconds(60);
constexpr std::size_t kStreamBytesMax = std::size_t{32} << 20;
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
constexpr Duration kPrintTime = std::chrono::seconds(1);
constexpr std::int64_t kIncomingMax = 64;

// The other node may not listen yet.
constexpr Duration kConnectAgain = std::chrono::milliseconds(5);

using Piece = std::array<char, kPieceBytes>;

// False at the deadline, or when the connection is lost.
bool receive_all(int fd, char* data, std::size_t size, TimePoint deadline) {
  while (size > 0) {
    const ssize_t got = wait_ready(fd, POLLIN, deadline) ? ::recv(fd, data, size, 0) : -1;
    if (got <= 0 && (got == 0 || errno != EAGAIN || steady_now() >= deadline)) {
      return false;
    }
    const auto count = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    data += count;
    size -= count;
  }
  return true;
}

bool send_all(int fd, const char* data, std::size_t size, TimePoint deadline) {
  while (size > 0) {
    const ssize_t sent =
        wait_ready(fd, POLLOUT, deadline) ? ::send(fd, data, size, MSG_NOSIGNAL) : -1;
    if (sent < 0 && (errno != EAGAIN || steady_now() >= deadline)) {
      return false;
    }
    const auto count = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    data += count;
    size -= count;
  }
  return true;
}

// How long this thread was ready to run but had no CPU. Zero if the kernel does not count it.
std::chrono::nanoseconds cpu_wait() {
  std::ifstream file("/proc/thread-self/schedstat");
  std::int64_t ran = 0;
  std::int64_t waited = 0;
  return std::chrono::nanoseconds(file >> ran >> waited ? waited : 0);
}

// What the other node has received of a stream, in the machine's byte order.
struct Received {
  std::uint64_t bytes = 0;
  std::int64_t waited = 0;  // cpu_wait() meanwhile, in ns
};

// Reads the stream up to its end, and confirms its size.
bool answer_stream(int fd, TimePoint deadline) {
  static Piece piece;
  Received out;
  const auto waited_before = cpu_wait();
  while (wait_ready(fd, POLLIN, deadline)) {
    const ssize_t got = ::recv(fd, piece.data(), piece.size(), 0);
    if (got == 0) {
      break;
    }
    if (got < 0 && errno != EAGAIN) {
      return false;
    }
    out.bytes += static_cast<std::uint64_t>(std::max<ssize_t>(got, 0));
  }
  out.waited = (cpu_wait() - waited_before).count();
  return send_all(fd, reinterpret_cast<const char*>(&out), sizeof(out), deadline);
}

bool serve(int fd, const LinkPlan& plan, TimePoint deadline) {
  std::array<char, kLinkKeyBytes> key{};
  if (!receive_all(fd, key.data(), key.size(), deadline) ||
      std::string_view(key.data(), key.size()) != plan.key) {
    return false;
  }
  char byte = 0;
  if (!send_all(fd, &byte, 1, deadline)) {
    return false;
  }
  while (receive_all(fd, &byte, 1, deadline)) {
    if (byte == kStream) {
      return answer_stream(fd, deadline);
    }
    if (!send_all(fd, &byte, 1, deadline)) {
      break;
    }
  }
  return false;
}

std::optional<Duration> ping(int fd, TimePoint deadline) {
  Duration best = Duration::max();
  const TimePoint end = steady_now() + kPingTime;
  for (int i = 0; i == 0 || (i < kPings && steady_now() < end); ++i) {
    const TimePoint before = steady_now();
    char byte = kPing;
    if (!send_all(fd, &byte, 1, deadline) || !receive_all(fd, &byte, 1, deadline)) {
      return std::nullopt;
    }
    best = std::min(best, steady_now() - before);
  }
  return send_all(fd, &kStream, 1, deadline) ? std::optional(best) : std::nullopt;
}

// Bytes per second, including the time until the other node has received all. If it has not
// received all at the deadline, the link is at most as fast as this.
std::optional<double> stream(int fd, TimePoint deadline) {
  static constexpr Piece kZeros{};
  const auto waited_before = cpu_wait();
  const TimePoint before = steady_now();
  std::uint64_t sent = 0;
  while (sent < kStreamBytesMax && steady_now() < before + kStreamTime) {
    if (!send_all(fd, kZeros.data(), kZeros.size(), deadline)) {
      break;
    }
    sent += kZeros.size();
  }
  Received received;
  ::shutdown(fd, SHUT_WR);
  const bool is_confirmed =
      receive_all(fd, reinterpret_cast<char*>(&received), sizeof(received), deadline);
  if (is_confirmed ? received.bytes != sent : steady_now() < deadline) {
    return std::nullopt;
  }
  const Duration time = steady_now() - before;
  const Duration on_link =
      time_on_link(time, cpu_wait() - waited_before, Duration(received.waited));
  return static_cast<double>(sent) / std::chrono::duration<double>(on_link).count();
}

std::string measure_link(const LinkPlan& plan,
                         const LinkPeer& peer,
                         TimePoint deadline,
                         NodeFigures& out) {
  const auto address = SocketAddress::parse(peer.address, peer.port);
  if (!address) {
    return address.error().message;
  }
  auto fd = connect_until(*address, deadline);
  while (!fd && fd.error() == ECONNREFUSED && steady_now() + kConnectAgain < deadline) {
    static_cast<void>(::poll(nullptr, 0, poll_timeout(steady_now() + kConnectAgain)));
    fd = connect_until(*address, deadline);
  }
  if (!fd) {
    return connect_error(*address, fd.error()).message;
  }
  char greeting = 0;
  if (!send_all(fd->get(), plan.key.data(), plan.key.size(), deadline) ||
      !receive_all(fd->get(), &greeting, 1, deadline)) {
    return peer.address + " does not answer";
  }
  const auto latency = ping(fd->get(), deadline);
  const auto bandwidth = latency ? stream(fd->get(), deadline) : std::nullopt;
  if (!bandwidth) {
    return peer.address + " does not answer in time";
  }
  out.links.push_back({peer.index, std::chrono::duration<double>(*latency).count(), *bandwidth});
  return {};
}

std::string encode(const LinkPeer& peer) {
  return fmt::format("{}|{}|{}", peer.index, peer.address, peer.port);
}

std::optional<LinkPeer> decode_peer(std::string_view word) {
  const std::vector<std::string> parts = split(word, '|');
  const auto index = parts.size() == 3 ? parse_int(parts[0]) : std::nullopt;
  const auto port = parts.size() == 3 ? parse_int(parts[2]) : std::nullopt;
  const bool is_valid = index && port && *index >= 0 && *index <= std::numeric_limits<int>::max() &&
                        *port >= 0 && *port <= std::numeric_limits<std::uint16_t>::max();
  return is_valid ? std::optional(LinkPeer{
                        static_cast<int>(*index), parts[1], static_cast<std::uint16_t>(*port)})
                  : std::nullopt;
}

}  // namespace

Duration time_on_link(Duration time, Duration waited_here, Duration waited_there) {
  constexpr int kLeastShare = 4;  // a small rest is not accurate
  const Duration waited = waited_here + std::clamp(waited_there, Duration::zero(), time);
  return std::max(time - waited, time / kLeastShare);
}

std::string encode(const LinkPlan& plan) {
  std::string text = fmt::format("{} {} {}", plan.key, plan.incoming, encode(plan.self));
  for (const LinkPeer& peer : plan.peers) {
    text += " " + encode(peer);
  }
  return text;
}

std::optional<LinkPlan> decode_link_plan(std::string_view text) {
  const std::vector<std::string> words = split(text, ' ');
  const auto incoming = words.size() < 3 ? std::nullopt : parse_int(words[1]);
  if (!incoming || words[0].size() != kLinkKeyBytes || *incoming < 0 || *incoming > kIncomingMax) {
    return std::nullopt;
  }
  LinkPlan plan{.key = words[0], .incoming = static_cast<int>(*incoming)};
  for (std::size_t i = 2; i < words.size(); ++i) {
    auto peer = decode_peer(words[i]);
    if (!peer) {
      return std::nullopt;
    }
    (i == 2 ? plan.self : plan.peers.emplace_back()) = std::move(*peer);
  }
  return plan;
}

void serve_links(const LinkPlan& plan, TimePoint deadline) {
  const auto listener = listen_on(plan.self.address, plan.self.port);
  int served = 0;
  while (listener && served < plan.incoming && wait_ready(listener->get(), POLLIN, deadline)) {
    const UniqueFd fd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      continue;
    }
    const int yes = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    served += serve(fd.get(), plan, deadline) ? 1 : 0;
  }
}

void measure_links(const LinkPlan& plan, TimePoint deadline, NodeFigures& out) {
  auto left = static_cast<int>(plan.peers.size());
  for (const LinkPeer& peer : plan.peers) {
    const TimePoint now = steady_now();
    const TimePoint end = now + std::max(deadline - now, Duration::zero()) / left--;
    if (const std::string why = measure_link(plan, peer, end, out); !why.empty()) {
      out.unmeasured.push_back("a link: " + why);
    }
  }
}

// The process that serves ends when all expected nodes have connected. This one waits for it,
// because its parent kills both when this one exits.
int run_measure_links(std::string_view text) {
  const auto plan = decode_link_plan(text);
  if (!plan) {
    return 1;
  }
  const TimePoint deadline = steady_now() + kLinksTime;
  const pid_t server = ::fork();
  if (server == 0) {
    serve_links(*plan, deadline);
    ::_exit(0);
  }
  NodeFigures figures;
  measure_links(*plan, deadline, figures);
  if (server > 0) {
    ::waitpid(server, nullptr, 0);
  }
  return write_within(1, encode(figures) + "\n", kPrintTime) ? 0 : 1;
}

}  // namespace muster::check
