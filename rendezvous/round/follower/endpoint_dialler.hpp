// SPDX-License-Identifier: Apache-2.0
// EndpointDialler: a fresh node's attempts to reach its endpoints, all at the same time, so that an
// endpoint that does not answer or has no address delays none of the others. Part of LinkCore;
// pure, value-like.
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

// An endpoint is dialled so long after the one before it, or when that one fails: where the first
// one answers, no connection is made in vain.
inline constexpr Duration kDialStagger = std::chrono::milliseconds(50);

class EndpointDialler {
 public:
  explicit EndpointDialler(const std::vector<Endpoint>& endpoints);

  // Each endpoint is due, but for the pause after its last failure.
  void begin(TimePoint now);

  // Opens what is due; takes link ids from `next_link`.
  void tick(TimePoint now, LinkId& next_link, NodeEffects& out);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  // Which endpoint this connection, if it is one of ours, leads to.
  [[nodiscard]] std::optional<std::size_t> index_of(LinkId link) const;

  // The connection is open, and the caller's from now on.
  void take(std::size_t index) { attempts_[index].link = 0; }

  // An attempt at the endpoint has failed; it is due again at that time.
  void fail(TimePoint now, std::size_t index, const std::string& why, TimePoint again);

  [[nodiscard]] Duration pause_of(std::size_t index) const { return attempts_[index].pause; }

  // Closes what is being opened.
  void drop(NodeEffects& out);

  // A leader has answered: the next search begins without pauses.
  void forget_failures();

  // "n1:29400: connection refused; n2:29400: no answer". Empty: no attempt has failed.
  [[nodiscard]] std::string trouble() const;

 private:
  struct Attempt {
    Endpoint endpoint;
    LinkId link = 0;  // 0: not being opened
    TimePoint due = TimePoint::min();
    Duration pause = kSeekPauseFirst;
    std::string trouble;
  };

  std::vector<Attempt> attempts_;
};

}  // namespace muster
