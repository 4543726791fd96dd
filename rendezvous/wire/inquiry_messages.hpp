// SPDX-License-Identifier: Apache-2.0
// Messages for inquiries: a node asks a question about all nodes of the round. The coordinator
// requests findings from each node and sends the verdict to all of them. The topics are a hang
// (which rank stalls the job), a preemption (at which step all ranks save) and a check (which nodes
// have defects). Values; encoded by
// wire/round_encoder, explained in round/questions/inquiry.hpp and PROTOCOL.md. Thread-safe.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster {

// preemption: of the job; departure: of some of its nodes.
enum class Topic : std::uint8_t { hang, preemption, departure, check };

inline constexpr std::size_t kTopics = 4;

// Starts an inquiry, because the sender's workers have made no progress for too long, because the
// scheduler will stop the job, or because nodes must be checked. `heard` is the last inquiry about
// this topic by this coordinator whose verdict the sender has received. The request is opaque to
// the rendezvous, like findings and verdicts.
struct Inquire {
  RoundId round;
  std::uint64_t heard = 0;
  Topic topic = Topic::hang;
  std::string request{};
  bool operator==(const Inquire&) const = default;
};

// Tells a node to inspect its workers and to send Looked within this time and size.
struct Look {
  RoundId round;
  std::uint64_t inquiry = 0;
  Duration within{};
  std::uint32_t bytes_max = 0;
  Topic topic = Topic::hang;
  std::string request{};  // of the Inquire
  bool operator==(const Look&) const = default;
};

// The findings of one node. Empty if the sender does not detect hangs.
struct Looked {
  RoundId round;
  std::uint64_t inquiry = 0;
  std::string findings;
  Topic topic = Topic::hang;
  bool operator==(const Looked&) const = default;
};

// The result of an inquiry, sent to all nodes of the round. Empty if the leader cannot judge.
struct Judged {
  RoundId round;
  std::uint64_t inquiry = 0;
  std::string verdict;
  Topic topic = Topic::hang;
  bool operator==(const Judged&) const = default;
};

}  // namespace muster
