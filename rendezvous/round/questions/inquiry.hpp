// SPDX-License-Identifier: Apache-2.0
// Inquiry: the coordinator's part in finding out who holds up the job. Asks all nodes of the round
// what their workers do, waits for the answers but not for ever, hands them to its agent, and tells
// everybody the verdict. One at a time, so two nodes that ask at one moment hear of one verdict.
// Part of NodeCore; pure; value-like.
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

// A node answers within the first, with what it has seen by then; a node that beats and has not
// answered after the second is left out.
inline constexpr Duration kAnswerWithin = std::chrono::seconds(8);
inline constexpr Duration kAnswerMax = std::chrono::seconds(10);

// From the end of an inquiry to the next one.
inline constexpr Duration kBetweenInquiries = std::chrono::milliseconds(250);

// Answers of all nodes together, shared out among them; each may have so many at the least.
inline constexpr std::size_t kFindingsOfAllMax = std::size_t{256} << 20;
inline constexpr std::size_t kFindingsLeast = 4096;

// Nobody waits longer for the answer of a node of which nothing was heard for so long: it has
// missed two beats.
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

// What the coordinator knows of a member of the running round.
struct MemberContact {
  std::optional<LinkId> link{};
  TimePoint heard{};      // of it, last
  bool finished = false;  // all its workers have ended well
};

struct InquiryMembers {
  const RoundPtr& round;
  std::function<MemberContact(NodeId)> contact;
};

class Inquiry {
 public:
  explicit Inquiry(Duration lease) : lease_(lease) {}

  // A member says that its workers make no progress.
  void stalled(TimePoint now,
               LinkId from,
               const Stalled& said,
               const InquiryMembers& members,
               NodeEffects& out);
  // A member has looked.
  void take(NodeId from, const Looked& said, NodeEffects& out);
  // It has come back, maybe without having heard the question.
  void attached(NodeId id, const InquiryMembers& members, NodeEffects& out);
  // Our agent has judged.
  void judged(TimePoint now, const Judged& said, const InquiryMembers& members, NodeEffects& out);
  void tick(TimePoint now, const InquiryMembers& members, NodeEffects& out);
  // The round has ended, or we lead no more.
  void drop();

  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  // Of which it is; null: none.
  [[nodiscard]] const RoundPtr& round() const { return round_; }

  [[nodiscard]] bool is_asking() const { return state_ == State::asking; }

 private:
  enum class State : std::uint8_t { idle, asking, judging };

  void begin(TimePoint now, const InquiryMembers& members, NodeEffects& out);
  void ask(LinkId link, NodeEffects& out) const;
  void scan(TimePoint now, const InquiryMembers& members);
  void conclude(NodeEffects& out);

  Duration lease_;
  State state_ = State::idle;
  RoundPtr round_;
  std::uint64_t number_ = 0;               // of the last one
  std::vector<NodeAnswer> answers_;        // in the order of group ranks
  std::map<NodeId, std::size_t> awaited_;  // of whom there is none yet: their places
  bool wanted_ = false;                    // another one, as soon as it may begin
  TimePoint asked_at_{};
  TimePoint scan_due_{};
  TimePoint not_before_ = TimePoint::min();
  std::shared_ptr<const RoundMessage> last_;  // verdict, for those who have missed it
};

}  // namespace muster
