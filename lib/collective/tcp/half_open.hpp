// SPDX-License-Identifier: Apache-2.0
// HalfOpen: accepts connections and waits for the first bytes on all of them at once, so that
// silent clients cannot keep ranks out. Resource type; one thread.
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

// The first message on a connection between ranks.
struct Hello {
  static constexpr std::uint64_t kMagic = 0x326c6c6f4354534d;  // "MSTColl2"

  std::uint64_t magic = kMagic;
  LaneKey key;            // key of the receiver
  std::int32_t rank = 0;  // rank of the sender
  std::uint32_t lane = 0;
};

class HalfOpen {
 public:
  // Maximum number of connections that have not sent a hello.
  static constexpr std::size_t kMost = 256;
  // Connections that stay silent for this long are closed.
  static constexpr Duration kTimeout = std::chrono::seconds(2);
  // Shorter timeout, used if kMost is reached or descriptors run out. A rank sends its hello as
  // soon as it is connected.
  static constexpr Duration kTimeoutWhenFull = std::chrono::milliseconds(200);

  // `listener` must be listening and non-blocking, and must outlive this object.
  explicit HalfOpen(int listener) : listener_(listener) {}

  struct Greeting {
    UniqueFd fd;  // non-blocking, TCP_NODELAY
    Hello hello;
  };

  // Returns the next complete hello, valid or not; empty at the deadline. Error: system, if this
  // process cannot accept connections (out of descriptors).
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
  bool no_descriptors_ = false;  // no descriptors are left for further connections
  std::deque<Waiting> waiting_;  // in order of arrival
};

}  // namespace muster::collective
