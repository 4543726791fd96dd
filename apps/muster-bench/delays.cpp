// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/delays.hpp"

#include "apps/muster-bench/connection.hpp"
#include "apps/muster-bench/dialect.hpp"
#include "base/clock.hpp"
#include "rendezvous/wire/store_encoder.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <errno.h>
#include <sys/socket.h>

namespace muster::bench {
namespace {

// The server reads at most this many bytes at a time, so each chunk is served in one turn.
constexpr std::size_t kChunk = 128UL * 1024;

// How long to wait for the cleanup after a closed session, for which the server sends no reply. The
// cleanup takes less time.
constexpr Duration kCleanup = std::chrono::milliseconds(500);

// In each phase, all waits are for one of these keys. A SET completes the waits for kCommon; kNever
// is never set.
constexpr auto kCommon = "/delays/all";
constexpr auto kNever = "/delays/never";

std::string name(std::size_t number) {
  return "/delays/rank/" + std::to_string(1'000'000 + number);
}

std::vector<std::string> names(std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(name(i));
  }
  return out;
}

std::string with_keys(Opcode opcode, const std::vector<std::string>& keys) {
  std::string out;
  RequestWriter(out, opcode).keys(keys);
  return out;
}

std::string set_all(const std::vector<std::string>& keys) {
  std::string out;
  RequestWriter writer(out, Opcode::multi_set);
  writer.number(static_cast<std::int64_t>(keys.size()));
  for (const std::string& key : keys) {
    writer.string(key).string("v");
  }
  return out;
}

std::string plain(Opcode opcode) {
  std::string out;
  RequestWriter(out, opcode);
  return out;
}

std::string set_one(const std::string& key) {
  std::string out;
  RequestWriter(out, Opcode::set).string(key).string("v");
  return out;
}

std::string waits_for(const std::string& key, std::size_t count) {
  const std::string one = with_keys(Opcode::wait, {key});
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out += one;
  }
  return out;
}

Result<UniqueFd> client(std::uint16_t port) {
  auto fd = connect_to(port);
  if (!fd) {
    return fd;
  }
  MUSTER_RETURN_IF_ERROR(converse(fd->get(), greeting(Protocol::tcpstore, {})));
  return fd;
}

// One client that sends requests, and another one whose PINGs are timed.
class Probe {
 public:
  Probe(std::uint16_t port, UniqueFd pinger) : port_(port), pinger_(std::move(pinger)) {}

  [[nodiscard]] Result<void> reconnect() {
    worker_.reset();
    auto fd = client(port_);
    MUSTER_RETURN_IF_ERROR(fd);
    worker_ = std::move(*fd);
    return {};
  }

  // Sends the requests, and pings until `replies` bytes have arrived.
  [[nodiscard]] Result<Duration> send(std::string_view requests, std::size_t replies) {
    longest_ = {};
    while (!requests.empty()) {
      const std::string_view chunk = requests.substr(0, kChunk);
      requests.remove_prefix(chunk.size());
      MUSTER_RETURN_IF_ERROR(send_all(worker_.get(), chunk));
      MUSTER_RETURN_IF_ERROR(ping());
    }
    return receive_all(replies);
  }

  // The pinging client sets the key for which the other client waits.
  [[nodiscard]] Result<Duration> wake(const std::string& key, std::size_t replies) {
    longest_ = {};
    MUSTER_RETURN_IF_ERROR(send_all(pinger_.get(), set_one(key)));
    return receive_all(replies);
  }

  [[nodiscard]] Result<Duration> close() {
    longest_ = {};
    worker_.reset();
    for (const TimePoint end = steady_now() + kCleanup; steady_now() < end;) {
      MUSTER_RETURN_IF_ERROR(ping());
    }
    return longest_;
  }

 private:
  Result<void> ping() {
    const TimePoint start = steady_now();
    auto done = converse(pinger_.get(), greeting(Protocol::tcpstore, {}));
    longest_ = std::max(longest_, steady_now() - start);
    return done;
  }

  Result<Duration> receive_all(std::size_t left) {
    std::array<char, kChunk> buffer;
    do {
      MUSTER_RETURN_IF_ERROR(ping());
      const auto got = recv(worker_.get(), buffer.data(), std::min(left, kChunk), MSG_DONTWAIT);
      if (left > 0 && got == 0) {
        return failure(Errc::closed, "a server closed the connection");
      }
      left -= got > 0 ? static_cast<std::size_t>(got) : 0;
    } while (left > 0);
    return longest_;
  }

  std::uint16_t port_;
  UniqueFd pinger_;
  UniqueFd worker_;
  Duration longest_{};
};

// The phases in order. After an error, the remaining phases are skipped.
class Phases {
 public:
  Phases(Probe& probe, std::size_t count) : probe_(probe), count_(count) {}

  [[nodiscard]] Result<std::vector<Delay>> run() {
    many_waits();
    large_requests(names(count_));
    MUSTER_RETURN_IF_ERROR(done_);
    return std::move(delays_);
  }

 private:
  void many_waits() {
    const std::string waits = waits_for(kCommon, count_);
    reconnect();
    send("many waits", waits, 0);
    note("a set ends the waits", [&] { return probe_.wake(kCommon, count_); });
    const std::string others = waits_for(kNever, count_);
    send("", others, 0);
    send("a cancel ends the waits", plain(Opcode::cancel_wait), 1);
    send("", others, 0);
    note("a close ends the waits", [&] { return probe_.close(); });
  }

  void large_requests(const std::vector<std::string>& keys) {
    constexpr std::size_t kValueBytes = sizeof(std::uint64_t) + 1;
    const std::string wait = with_keys(Opcode::wait, keys);
    reconnect();
    send("WAIT", wait, 0);
    note("a close ends the WAIT", [&] { return probe_.close(); });
    reconnect();
    send("", wait, 0);
    send("MULTI_SET", set_all(keys), 1);
    send("CHECK", with_keys(Opcode::check, keys), 1);
    send("MULTI_GET", with_keys(Opcode::multi_get, keys), keys.size() * kValueBytes);
    send("LIST_KEYS", plain(Opcode::list_keys), keys.size() * (keys.front().size() + 8));
  }

  void reconnect() {
    if (done_) {
      done_ = probe_.reconnect();
    }
  }

  void send(const std::string& phase, const std::string& requests, std::size_t replies) {
    note(phase, [&] { return probe_.send(requests, replies); });
  }

  // A phase without a name is not reported.
  template <class Act>
  void note(const std::string& phase, const Act& act) {
    if (!done_) {
      return;
    }
    const Result<Duration> longest = act();
    if (!longest) {
      done_ = failure(longest.error().code, phase + ": " + longest.error().message);
    } else if (!phase.empty()) {
      delays_.push_back({phase, *longest});
    }
  }

  Probe& probe_;
  std::size_t count_;
  Result<void> done_ = {};
  std::vector<Delay> delays_;
};

}  // namespace

Result<std::vector<Delay>> measure_delays(std::uint16_t port, std::size_t keys) {
  auto pinger = client(port);
  MUSTER_RETURN_IF_ERROR(pinger);
  Probe probe(port, std::move(*pinger));
  return Phases(probe, keys).run();
}

}  // namespace muster::bench
