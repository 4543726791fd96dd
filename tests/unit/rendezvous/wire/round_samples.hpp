// SPDX-License-Identifier: Apache-2.0
// One message of each kind between nodes, with every field set, for the tests of the codec.
#pragma once

#include "rendezvous/wire/round_messages.hpp"

#include <memory>
#include <string>
#include <vector>

namespace muster::testing {

inline NodeInfo sample_node(int index) {
  return {.id = NodeId{0x1111111111111111} * static_cast<NodeId>(index + 1),
          .name = "node" + std::to_string(index),
          .address = "10.0.0." + std::to_string(index + 1),
          .port = static_cast<std::uint16_t>(40000 + index),
          .nproc = index + 1,
          .role = index == 2 ? "trainer" : "default",
          .node_rank = index - 1};
}

inline RoundPtr sample_round(std::uint64_t number, int nodes) {
  auto round = std::make_shared<Round>();
  round->id = {.number = number, .coordinator = 77};
  round->restart_count = 3;
  for (int i = 0; i < nodes; ++i) {
    round->members.push_back(sample_node(i));
  }
  return round;
}

inline JobTerms sample_terms() {
  return {.job_id = "job é",
          .backend = "c10d",
          .nodes_min = 2,
          .nodes_max = 4,
          .max_restarts = 5,
          .version = "0.1.0",
          .leader_ports = 2,
          .program = 0xfedcba9876543210,
          .command = "train.py --lr=0.1",
          .mends = true};
}

inline LeaderOffer sample_offer() {
  return {.serves_store = false, .ports = {1, 65535}, .is_carried = true};
}

inline Inheritance sample_inheritance() {
  return {.job = 1ULL << 63U,
          .until = {.number = 8, .coordinator = 76},
          .ids = {1, 1ULL << 62U},
          .unconfirmed = true};
}

inline std::vector<RoundMessage> followers_samples() {
  const RoundId round{.number = 9, .coordinator = 77};
  return {
      Hello{.purpose = Purpose::ask,
            .terms = sample_terms(),
            .node = sample_node(1),
            .started = round,
            .accepted = {.number = 10, .coordinator = 78},
            .lost = 55,
            .waited = true,
            .running = true,
            .coordinates = true,
            .has_quorum = true,
            .inherits = sample_inheritance(),
            .mends = {.epoch = 12, .restarts = 3},
            .reserve = std::chrono::minutes(30),
            .addresses = {"10.0.0.9", "2001:db8::9"}},
      Rounds{.started = sample_round(9, 3),
             .accepted = sample_round(10, 2),
             .base = sample_round(0, 0)},
      Beat{.sequence = 1ULL << 40U, .heard = 3},
      Ready{.lost_touch = true},
      Accept{
          .round = round, .store_addr = "10.0.0.7", .store_port = 65535, .offer = sample_offer()},
      Failed{.round = round,
             .rank = 4,
             .exit_code = -9,
             .age = std::chrono::milliseconds(7),
             .run_time = std::chrono::hours(3),
             .permanent = true,
             .exited = true,
             .consequence = true,
             .node_cause = "hardware",
             .text = "exited with code 7"},
      Details{.round = round, .rank = 4, .blob = std::string("\0\x01\xff{", 4)},
      Stopping{round},
      Carry{std::string("\0\x01\xff{", 4)},
      Finished{round},
      Inquire{.round = round,
              .heard = 1ULL << 35U,
              .topic = Topic::preemption,
              .request = "30000 SIGTERM"},
      Looked{.round = round,
             .inquiry = 7,
             .findings = std::string("\0\x01\xff{", 4),
             .topic = Topic::preemption},
      Waited{.round = round,
             .at = std::chrono::hours(3),
             .sums = {{.rank = 4,
                       .tells_step = true,
                       .step = 1ULL << 40U,
                       .group = "world, epoch 9",
                       .operations = 1ULL << 41U,
                       .waits = 7,
                       .waited = std::chrono::milliseconds(70)},
                      {.rank = 5, .group = ""}}},
      Leave{.reason = "SIGTERM", .workers_gone = true},
      Lacking{.round = round,
              .number = 7,
              .ranks = {4, 5},
              .holds_state = true,
              .out_of_memory = true,
              .tells_step = true,
              .step = 1ULL << 40U,
              .cause = {.round = round, .rank = 4, .text = "killed by SIGKILL"},
              .obstacle = "rank 6 has finished"},
      Mended{.round = round, .epoch = 1ULL << 40U}};
}

inline std::vector<RoundMessage> coordinators_samples() {
  const RoundId round{.number = 9, .coordinator = 77};
  return {Welcome{.coordinator = sample_node(0), .lease = std::chrono::seconds(9)},
          Refuse{.why = Refusal::wrong_terms, .text = "--nnodes is 2:4 here and 3:4 there"},
          Redirect{sample_node(2)},
          Claim{.node = sample_node(1),
                .coordinator = sample_node(2),
                .started = round,
                .has_quorum = true,
                .inherits = sample_inheritance()},
          Pong{.sequence = 5, .granted = true},
          RollCall{.present = 1,
                   .needed = 3,
                   .names = {"node1", "node2"},
                   .awaited = {"1 more node"},
                   .refused = {"node9: another job", ""}},
          Propose{.round = sample_round(10, 5), .base = sample_round(9, 3)},
          Start{.round = round,
                .master_addr = "fe80::1%eth0",
                .master_port = 29500,
                .restarts = 3,
                .offer = sample_offer()},
          Regroup{"node3 is gone", {12, 4}, true},
          Dismiss{"2 rounds failed first on this node"},
          Close{.succeeded = false,
                .exit_code = 143,
                .reason = "no restart is left",
                .root_rank = 3,
                .root_node = "node1",
                .root_text = "killed by SIGTERM",
                .details = "{}",
                .others_count = 2,
                .others = {{.rank = 1, .node = "node0", .text = "a"},
                           {.rank = 2, .node = "node0", .text = "b"}}},
          ShowRounds{},
          Look{.round = round,
               .inquiry = 1ULL << 36U,
               .within = std::chrono::seconds(8),
               .bytes_max = 65536,
               .topic = Topic::preemption,
               .request = "30000 SIGTERM"},
          Judged{.round = round,
                 .inquiry = 7,
                 .verdict = std::string("\0\x01\xff{", 4),
                 .topic = Topic::preemption},
          Vouch{.asker = 77,
                .sequence = 1ULL << 33U,
                .asked = 2,
                .client = {"10.0.0.8", 41000, "fe80::1%eth0", 29500}},
          Vouched{.asker = 77,
                  .sequence = 3,
                  .asked = 2,
                  .answer = VouchAnswer::out_of_touch,
                  .node = "node1"},
          Mend{.round = round,
               .mends = {.epoch = 12, .restarts = 3},
               .asker = 77,
               .number = 7,
               .ranks = {4, 5},
               .cause = 4,
               .reason = "rank 4 on 'node1' killed by SIGKILL"},
          NoMend{.round = round, .number = 7, .reason = "node 'node2' has finished"}};
}

inline std::vector<RoundMessage> all_samples() {
  std::vector<RoundMessage> out = followers_samples();
  for (RoundMessage& message : coordinators_samples()) {
    out.push_back(std::move(message));
  }
  return out;
}

// Compares every field, and rounds behind pointers by value.
struct SameMessage {
  template <class Left, class Right>
  bool operator()(const Left&, const Right&) const {
    return false;
  }

  bool operator()(const Rounds& left, const Rounds& right) const {
    return *left.started == *right.started && *left.accepted == *right.accepted &&
           *left.base == *right.base;
  }

  bool operator()(const Propose& left, const Propose& right) const {
    return *left.round == *right.round && *left.base == *right.base;
  }

  template <class Message>
  bool operator()(const Message& left, const Message& right) const {
    return left == right;
  }
};

inline bool same(const RoundMessage& left, const RoundMessage& right) {
  return std::visit(SameMessage{}, left, right);
}

}  // namespace muster::testing
