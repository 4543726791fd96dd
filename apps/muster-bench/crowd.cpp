// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/crowd.hpp"

#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/connection.hpp"
#include "apps/muster-bench/crowd_host.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "rendezvous/round/node_settings.hpp"
#include "rendezvous/wire/round_encoder.hpp"
#include "rendezvous/wire/round_kinds.hpp"
#include "rendezvous/wire/round_limits.hpp"
#include "trust/secure_channel.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace muster::bench {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(60);
constexpr std::size_t kPace = 512;

// The number of bytes that a follower keeps of a frame. For a list of thousands of nodes this
// covers only the round ID: this process must not decode the list for every follower, because real
// followers do that on their own hosts.
constexpr std::size_t kKeptBytes = 64;

struct Follower {
  UniqueFd fd;
  std::string head;                                     // the beginning of the current frame
  std::uint64_t skip = 0;                               // remaining bytes of the frame's body
  std::size_t greeting = kPreambleBytes + kReplyBytes;  // remaining bytes of the host's greeting
  std::unique_ptr<SecureChannel> channel;               // null if unencrypted
  std::uint64_t messages = 0;
  std::uint64_t beat = 0;
  std::uint64_t heard = 0;
  TimePoint beat_at{};
  bool welcome = false;
  int starts = 0;
};

class Followers {
 public:
  Followers(const CrowdHost& host, const CrowdPlan& plan)
      : host_(host),
        plan_(plan),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

  Result<void> join_all();

  // Runs the event loop until the condition is true.
  Result<void> serve(const std::function<bool()>& condition, std::string_view what);

  void lose_last() {
    followers_.back().fd.reset();
    followers_.pop_back();
  }

  [[nodiscard]] std::size_t size() const { return followers_.size(); }

  [[nodiscard]] std::size_t started(int times) const {
    return times == 1 ? first_starts_ : second_starts_;
  }

  std::size_t welcomed = 0;
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;

 private:
  static constexpr std::size_t kBufferBytes = 256UL * 1024;

  void say(Follower& follower, const RoundMessage& message);
  void send(Follower& follower, std::string_view bytes);
  void introduce(Follower& follower);
  void say_hello(std::size_t number);
  void hear(std::size_t number, std::string_view input);
  void read(std::size_t number);
  void take(std::size_t number, std::string_view input);
  void take_frame(Follower& follower);
  void beat_all(TimePoint now);

  const CrowdHost& host_;
  const CrowdPlan& plan_;
  UniqueFd epoll_;
  std::unique_ptr<char[]> buffer_;
  std::vector<Follower> followers_;
  std::size_t first_starts_ = 0;
  std::size_t second_starts_ = 0;
  TimePoint next_look_{};
};

Result<void> Followers::join_all() {
  followers_.reserve(plan_.nodes);
  for (std::size_t i = 0; i < plan_.nodes; ++i) {
    auto fd = connect_to(host_.port());
    MUSTER_RETURN_IF_ERROR(fd);
    ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
    Follower& follower = followers_.emplace_back();
    follower.fd = std::move(*fd);
    epoll_event interest{};
    interest.events = EPOLLIN;
    interest.data.u64 = i;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, follower.fd.get(), &interest) != 0) {
      return std::unexpected(system_error("cannot watch a connection", errno));
    }
    introduce(follower);
    const auto paced = [this, i] { return i + 1 - welcomed <= kPace; };
    if (auto served = serve(paced, "to be welcomed"); !served) {
      return served;
    }
  }
  return serve([this] { return welcomed == plan_.nodes; }, "to be welcomed");
}

Result<void> Followers::serve(const std::function<bool()>& condition, std::string_view what) {
  std::array<epoll_event, 256> events;
  const TimePoint deadline = steady_now() + kTimeout;
  while (!condition()) {
    const TimePoint now = steady_now();
    if (now > deadline) {
      return failure(Errc::timed_out,
                     "nodes waited for a minute " + std::string(what) + ": " +
                         std::to_string(welcomed) + " welcomed, " + std::to_string(first_starts_) +
                         " and " + std::to_string(second_starts_) + " started");
    }
    beat_all(now);
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 1);
    for (int i = 0; i < count; ++i) {
      const auto number = events[static_cast<std::size_t>(i)].data.u64;
      if (number < followers_.size()) {
        read(number);
      }
    }
  }
  return {};
}

void Followers::introduce(Follower& follower) {
  const JobTrust* const trust = host_.trust();
  std::string first = round_introduction(
      {.proofs = trust != nullptr ? Proofs::token : Proofs::none, .job = host_.terms().job_id});
  if (trust != nullptr) {
    follower.channel = std::make_unique<SecureChannel>(*trust, SecureChannel::Side::client);
    first += follower.channel->take_output();
  }
  send(follower, first);
}

// Sends only a few bytes at a time, so they always fit into the socket buffer.
void Followers::send(Follower& follower, std::string_view out) {
  bytes += out.size();
  static_cast<void>(::send(follower.fd.get(), out.data(), out.size(), MSG_NOSIGNAL));
}

void Followers::say_hello(std::size_t number) {
  Hello hello;
  hello.terms = host_.terms();
  // No process listens on the announced port, so the loss of a node is detected immediately.
  hello.node = {.id = number + 2,
                .name = "node" + std::to_string(number + 1),
                .address = "127.0.0.1",
                .port = 1,
                .role = "default"};
  say(followers_[number], hello);
}

void Followers::beat_all(TimePoint now) {
  if (now < next_look_) {
    return;
  }
  next_look_ = now + std::chrono::milliseconds(10);
  for (Follower& follower : followers_) {
    if (follower.welcome && follower.beat_at <= now) {
      follower.beat_at = now + beat_interval(plan_.lease);
      say(follower, Beat{.sequence = ++follower.beat, .heard = follower.heard});
    }
  }
}

void Followers::say(Follower& follower, const RoundMessage& message) {
  std::string out;
  static_cast<void>(append_frame(out, message));
  if (follower.channel) {
    follower.channel->seal(out);
    out = follower.channel->take_output();
  }
  send(follower, out);
}

void Followers::read(std::size_t number) {
  Follower& follower = followers_[number];
  const auto count = ::recv(follower.fd.get(), buffer_.get(), kBufferBytes, 0);
  if (count <= 0) {
    return;
  }
  bytes += static_cast<std::uint64_t>(count);
  hear(number, {buffer_.get(), static_cast<std::size_t>(count)});
}

// Consumes the host's reply first, then TLS records if there is a token.
void Followers::hear(std::size_t number, std::string_view input) {
  Follower& follower = followers_[number];
  const bool is_first = follower.greeting > 0;
  const std::size_t reply = std::min(follower.greeting, input.size());
  follower.greeting -= reply;
  input.remove_prefix(reply);
  if (!follower.channel) {
    if (is_first && follower.greeting == 0) {
      say_hello(number);
    }
    take(number, input);
    return;
  }
  std::string plain;
  const auto before = follower.channel->state();
  const auto state = follower.channel->feed(input, plain);
  if (const std::string out = follower.channel->take_output(); !out.empty()) {
    send(follower, out);
  }
  if (before != state && state == SecureChannel::State::open) {
    say_hello(number);
  }
  take(number, plain);
}

void Followers::take(std::size_t number, std::string_view input) {
  Follower& follower = followers_[number];
  const auto drop = [&input](std::uint64_t most) {
    const auto count = std::min<std::uint64_t>(input.size(), most);
    input.remove_prefix(count);
    return count;
  };
  while (!input.empty()) {
    if (follower.skip > 0) {
      follower.skip -= drop(follower.skip);
      continue;
    }
    std::string& head = follower.head;
    const auto body = [&head] { return std::size_t{load_int<std::uint32_t>(head)}; };
    const std::size_t wanted = head.size() < kFrameHeadBytes
                                   ? kFrameHeadBytes
                                   : kFrameHeadBytes + std::min(body(), kKeptBytes);
    const std::size_t piece = std::min(wanted - head.size(), input.size());
    head.append(input.substr(0, piece));
    input.remove_prefix(piece);
    if (head.size() >= kFrameHeadBytes &&
        head.size() == kFrameHeadBytes + std::min(body(), kKeptBytes)) {
      follower.skip = body() - (head.size() - kFrameHeadBytes);
      take_frame(follower);
      head.clear();
    }
  }
}

void Followers::take_frame(Follower& follower) {
  const auto kind = static_cast<std::uint8_t>(follower.head[4]);
  const std::string_view body = std::string_view(follower.head).substr(kFrameHeadBytes);
  ++messages;
  if (kind == kKindOf<Welcome>.number) {
    ++welcomed;
    follower.welcome = true;
    // Spreads the later heartbeats of all followers out over time.
    follower.beat_at = steady_now() + beat_interval(plan_.lease);
    say(follower, Beat{.sequence = ++follower.beat, .heard = 0});
    say(follower, Ready{});
  } else if (kind == kKindOf<Pong>.number) {
    const bool is_first = std::exchange(follower.heard, load_int<std::uint64_t>(body)) == 0;
    if (is_first) {
      // A new node counts only after it has acknowledged a message.
      say(follower, Beat{.sequence = ++follower.beat, .heard = follower.heard});
    }
  } else if (kind == kKindOf<Propose>.number) {
    const RoundId round{.number = load_int<std::uint64_t>(body),
                        .coordinator = load_int<std::uint64_t>(body.substr(8))};
    say(follower, Accept{.round = round, .store_addr = {}, .store_port = 0});
  } else if (kind == kKindOf<Regroup>.number) {
    say(follower, Stopping{});
    say(follower, Ready{});
  } else if (kind == kKindOf<Start>.number) {
    ++(++follower.starts == 1 ? first_starts_ : second_starts_);
  }
}

}  // namespace

Result<Crowd> measure_crowd(const CrowdPlan& plan) {
  const auto trust = plan.sealed ? std::make_shared<const JobTrust>("a token of the bench", kJob)
                                 : std::shared_ptr<const JobTrust>();
  auto host = CrowdHost::start(plan.nodes, plan.lease, trust);
  MUSTER_RETURN_IF_ERROR(host);
  pin_to(1);
  // Wait until the host listens.
  const TimePoint until = steady_now() + kTimeout;
  while (!connect_to((*host)->port()) && steady_now() < until) {
  }
  Crowd crowd;
  Followers followers(**host, plan);
  const TimePoint begin = steady_now();
  MUSTER_RETURN_IF_ERROR(followers.join_all());
  crowd.joined = steady_now() - begin;
  const auto all = [&](int times) {
    return [&followers, times] { return followers.started(times) >= followers.size(); };
  };
  MUSTER_RETURN_IF_ERROR(followers.serve(all(1), "for the first start"));
  crowd.started = steady_now() - begin;
  crowd.messages_per_node =
      static_cast<double>(followers.messages) / static_cast<double>(plan.nodes);
  followers.lose_last();
  const TimePoint lost = steady_now();
  MUSTER_RETURN_IF_ERROR(followers.serve(all(2), "for the second start"));
  crowd.regrouped = steady_now() - lost;

  const TimePoint idle_from = steady_now();
  const Duration cpu_before = (*host)->cpu_time();
  followers.bytes = 0;
  if (auto idle = followers.serve([&] { return steady_now() - idle_from >= plan.idle; }, "");
      !idle) {
    return std::unexpected(idle.error());
  }
  const std::chrono::duration<double> looked = steady_now() - idle_from;
  const std::chrono::duration<double> used = (*host)->cpu_time() - cpu_before;
  crowd.idle_share = used / looked;
  crowd.bytes_per_node_second =
      static_cast<double>(followers.bytes) / static_cast<double>(followers.size()) / looked.count();
  return crowd;
}

}  // namespace muster::bench
