// SPDX-License-Identifier: Apache-2.0
// Measures the links from this node to others, and answers the measurements of other nodes at the
// same time. Runs in a child process of the agent. A connection begins with the key of this check,
// which the nodes have received from the leader; other connections are closed. No state.
#pragma once

#include "base/time.hpp"
#include "check/figures.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::check {

// The variable with the text of a LinkPlan.
inline constexpr const char* kLinksVariable = "MUSTER_CHECK_LINKS";

inline constexpr std::size_t kLinkKeyBytes = 32;

// The time limit for all links of a node together.
inline constexpr Duration kLinksTime = std::chrono::milliseconds(1200);

struct LinkPeer {
  int index = 0;  // of the node
  std::string address;
  std::uint16_t port = 0;
  bool operator==(const LinkPeer&) const = default;
};

struct LinkPlan {
  std::string key;                // kLinkKeyBytes hexadecimal digits
  LinkPeer self{};                // where this node listens; port 0: it does not
  int incoming = 0;               // nodes that connect to this one
  std::vector<LinkPeer> peers{};  // in the order of the rounds
  bool operator==(const LinkPlan&) const = default;
};

[[nodiscard]] std::string encode(const LinkPlan& plan);
[[nodiscard]] std::optional<LinkPlan> decode_link_plan(std::string_view text);

// The time in which both ends of a link could use it. On a busy node, they wait for a CPU
// meanwhile. The other end's time is untrusted.
[[nodiscard]] Duration time_on_link(Duration time, Duration waited_here, Duration waited_there);

// Answers `incoming` connections with the key until the deadline.
void serve_links(const LinkPlan& plan, TimePoint deadline);

// Measures one link after the other. What fails is added to `unmeasured`.
void measure_links(const LinkPlan& plan, TimePoint deadline, NodeFigures& out);

// Does both in two processes, and prints the figures.
[[nodiscard]] int run_measure_links(std::string_view plan);

}  // namespace muster::check
