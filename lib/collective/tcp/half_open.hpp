// SPDX-License-Identifier: Apache-2.0
// HalfOpen: accepts connections and waits for what the peers say first, from all of them at once,
// so that strangers who say nothing keep no rank from us. Resource type; one thread.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "collective/error.hpp"
#include "collective/tcp/lane_key.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

namespace muster::collective {

// The first bytes on a connection between ranks.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x326c6c6f4354534d;  // "MSTColl2"

  std::uint64_t magic = kMagic;
  LaneKey key;            // of the rank that is greeted
  std::int32_t rank = 0;  // that greets
  std::uint32_t lane = 0;
};

class HalfOpen {
 public:
  // Connections that are accepted and not greeted yet.
  static constexpr std::size_t kMost = 256;
  // Whoever is silent for so long is disconnected.
  static constexpr Duration kTimeout = std::chrono::seconds(2);
  // With kMost of them, or without descriptors for more, even sooner; a rank greets as soon as it
  // is connected.
  static constexpr Duration kTimeoutWhenFull = std::chrono::milliseconds(200);

  // `listener` listens, does not block, and outlives this.
  explicit HalfOpen(int listener) : listener_(listener) {}

  struct Greeting {
    UniqueFd fd;  // does not block, without Nagle
    Hello hello;
  };

  // The next that has said all of its hello, whatever it says; nobody until the deadline. Error:
  // system, this process cannot accept connections (no descriptors).
  [[nodiscard]] Result<std::optional<Greeting>> next(TimePoint deadline);

  [[nodiscard]] std::size_t count() const { return waiting_.size(); }

 private:
  struct Waiting {
    UniqueFd fd;
    TimePoint since;
    std::array<char, sizeof(Hello)> bytes = {};
    std::size_t size = 0;
    bool is_closed = false;
  };

  [[nodiscard]] bool is_full() const { return waiting_.size() >= kMost || no_descriptors_; }

  [[nodiscard]] TimePoint first_timeout() const;
  [[nodiscard]] std::optional<Greeting> read_all();
  [[nodiscard]] Result<void> accept_all();
  void drop_silent();
  void wait(TimePoint deadline) const;

  int listener_;
  bool no_descriptors_ = false;  // for more connections than those that wait
  std::deque<Waiting> waiting_;  // in the order in which they came
};

}  // namespace muster::collective
