// SPDX-License-Identifier: Apache-2.0
// Inquiry: the coordinator's part in answering a question about all nodes of the round: which rank
// stalls the job, at which step all ranks save before a preemption, or which nodes have defects. It
// queries all nodes and waits a limited time for the answers. It passes these to its agent and
// sends the agent's verdict to all nodes. Only one inquiry about a topic runs at a time, so two
// nodes that ask concurrently receive the same verdict. Part of NodeCore; pure; value-like.
#pragma once

#include "rendezvous/round/node_effects.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace muster {

// A node answers within kAnswerWithin, with the findings that it has at that time. A node that
// sends heartbeats but has not answered after kAnswerMax is left out.
inline constexpr Duration kAnswerWithin = std::chrono::seconds(8);
inline constexpr Duration kAnswerMax = std::chrono::seconds(10);

// After a notice of preemption, workers wait for the verdict, so the time is shorter.
inline constexpr Duration kAnswerMaxPreemption = std::chrono::seconds(3);

// Workers start only after the check.
inline constexpr Duration kAnswerMaxCheck = std::chrono::milliseconds(3500);

// True if workers wait for the verdict, which is final.
[[nodiscard]] constexpr bool is_preemption(Topic topic) {
  return topic == Topic::preemption || topic == Topic::departure;
}

[[nodiscard]] constexpr Duration answer_max(Topic topic) {
  return is_preemption(topic)    ? kAnswerMaxPreemption
         : topic == Topic::check ? kAnswerMaxCheck
                                 : kAnswerMax;
}

// The minimum time between the end of an inquiry and the start of the next one.
inline constexpr Duration kBetweenInquiries = std::chrono::milliseconds(250);

// Size limit for the answers of all nodes together, and the minimum share for one node.
inline constexpr std::size_t kFindingsOfAllMax = std::size_t{256} << 20;
inline constexpr std::size_t kFindingsLeast = 4096;

// An inquiry stops waiting for a node if nothing has arrived from it for this time, that is, if it
// has missed two heartbeats.
[[nodiscard]] constexpr Duration silent_after(Duration lease) {
  return lease / 3;
}

[[nodiscard]] constexpr Duration inquiry_scan(Duration lease) {
  return std::min<Duration>(lease / 16, std::chrono::milliseconds(500));
}

[[nodiscard]] constexpr std::uint32_t findings_max(std::size_t nodes) {
  const std::size_t share = kFindingsOfAllMax / std::max<std::size_t>(nodes, 1);
  return static_cast<std::uint32_t>(std::clamp(share, kFindingsLeast, kMaxFindingsBytes));
}

// What the coordinator knows about a member of the running round.
struct MemberContact {
  std::optional<LinkId> link{};
  TimePoint heard{};      // time of the member's last message
  bool finished = false;  // all of the member's workers exited successfully
};

struct InquiryMembers {
  const RoundPtr& round;
  std::function<MemberContact(NodeId)> contact;
};

class Inquiry {
 public:
  Inquiry(Topic topic, Duration lease)
      : topic_(topic), lease_(lease), answer_max_(answer_max(topic)) {}

  // Handles a member's request.
  void asked(TimePoint now,
             LinkId from,
             const Inquire& said,
             const InquiryMembers& members,
             NodeEffects& out);
  // Stores the findings of a member.
  void take(NodeId from, const Looked& said, NodeEffects& out);
  // Repeats the query to a member that has reconnected, because it may have missed the query.
  void attached(NodeId id, const InquiryMembers& members, NodeEffects& out);
  // Sends the verdict of our agent to all members.
  void judged(TimePoint now, const Judged& said, const InquiryMembers& members, NodeEffects& out);
  void tick(TimePoint now, const InquiryMembers& members, NodeEffects& out);
  // Call when the round has ended or this node no longer leads.
  void drop();

  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  // The round of the inquiry; null if there is no inquiry.
  [[nodiscard]] const RoundPtr& round() const { return round_; }

  [[nodiscard]] bool is_asking() const { return state_ == State::asking; }

 private:
  enum class State : std::uint8_t { idle, asking, judging };

  void begin(TimePoint now, const InquiryMembers& members, NodeEffects& out);
  void ask(LinkId link, NodeEffects& out) const;
  void scan(TimePoint now, const InquiryMembers& members);
  void conclude(NodeEffects& out);

  Topic topic_;
  Duration lease_;
  Duration answer_max_;
  State state_ = State::idle;
  RoundPtr round_;
  std::uint64_t number_ = 0;  // number of the last inquiry
  std::string request_;
  std::vector<NodeAnswer> answers_;        // in group rank order
  std::map<NodeId, std::size_t> awaited_;  // members that have not answered, with their indices
  bool wanted_ = false;                    // start another inquiry as soon as allowed
  TimePoint asked_at_{};
  TimePoint scan_due_{};
  TimePoint not_before_ = TimePoint::min();
  std::shared_ptr<const RoundMessage> last_;  // the last verdict, for members that missed it
};

}  // namespace muster
