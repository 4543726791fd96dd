// SPDX-License-Identifier: Apache-2.0
// EndpointDialler: connects a fresh node to all its endpoints concurrently, so that an unresponsive
// or unresolvable endpoint does not delay the others. Part of LinkCore; pure, value-like.
#pragma once

#include "base/endpoint.hpp"
#include "base/time.hpp"
#include "rendezvous/round/node_effects.hpp"
#include "rendezvous/round/phase.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// Delay between attempts, cut short if the previous attempt fails. If the first endpoint answers in
// time, no other connection is opened.
inline constexpr Duration kDialStagger = std::chrono::milliseconds(50);

class EndpointDialler {
 public:
  explicit EndpointDialler(const std::vector<Endpoint>& endpoints);

  // Starts a search. All endpoints become due one after another, except those in a retry delay.
  void begin(TimePoint now);

  // Opens the connections that are due, with link ids from `next_link`.
  void tick(TimePoint now, LinkId& next_link, NodeEffects& out);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  // The index of this connection's endpoint; nullopt if another component opened the connection.
  [[nodiscard]] std::optional<std::size_t> index_of(LinkId link) const;

  // Call when the connection is open. The caller then owns it.
  void take(std::size_t index) { attempts_[index].link = 0; }

  // Call when an attempt has failed. The endpoint is tried again at `again`.
  void fail(TimePoint now, std::size_t index, const std::string& why, TimePoint again);

  [[nodiscard]] Duration pause_of(std::size_t index) const { return attempts_[index].pause; }

  // Closes pending attempts.
  void drop(NodeEffects& out);

  // Call when a leader has answered. The next search then starts without retry delays.
  void forget_failures();

  // "n1:29400: connection refused; n2:29400: no answer". Empty if no attempt has failed.
  [[nodiscard]] std::string trouble() const;

 private:
  struct Attempt {
    Endpoint endpoint;
    LinkId link = 0;  // 0 if no attempt is pending
    TimePoint due = TimePoint::min();
    Duration pause = kSeekPauseFirst;
    std::string trouble;
  };

  std::vector<Attempt> attempts_;
};

}  // namespace muster
