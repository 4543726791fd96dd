// SPDX-License-Identifier: Apache-2.0
// The layout of the values inside frames (round_fields.hpp): nodes, terms, rounds. Pure.
#pragma once

#include "rendezvous/wire/round_limits.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstdint>
#include <type_traits>

namespace muster {

// A writing archive reads the message; a reading archive fills it.
template <class Archive, class Value>
using Of = std::conditional_t<Archive::kWrites, const Value, Value>;

// ShowRounds has no fields.
template <class A, class Message>
requires std::is_empty_v<Message>

void fields(A& /*a*/, Message& /*m*/) {}

template <class A>
void fields(A& a, Of<A, JobTerms>& m) {
  a.text(m.job_id);
  a.name(m.backend);
  a.number(m.nodes_min, 1, kMaxNodesNamed);
  a.number(m.nodes_max, 1, kMaxNodesNamed);
  a.number(m.max_restarts, 0, INT32_MAX);
  a.name(m.version);
  a.number(m.leader_ports, 0, kMaxLeaderPorts);
  a.number(m.program);
  a.text(m.command);
  a.flag(m.mends);
}

template <class A>
void fields(A& a, Of<A, Mends>& m) {
  a.number(m.epoch);
  a.number(m.restarts, 0, INT32_MAX);
}

template <class A>
void fields(A& a, Of<A, std::int32_t>& m) {
  a.number(m, 0, INT32_MAX);
}

template <class A>
void fields(A& a, Of<A, LeaderOffer>& m) {
  a.flag(m.serves_store);
  a.ports(m.ports);
  a.flag(m.is_carried);
}

template <class A>
void fields(A& a, Of<A, StoreClient>& m) {
  a.address(m.host);
  a.number(m.port);
  a.address(m.store_host);
  a.number(m.store_port);
}

template <class A>
void fields(A& a, Of<A, RoundId>& m) {
  a.number(m.number);
  a.number(m.coordinator);
}

template <class A>
void fields(A& a, Of<A, NodeId>& m) {
  a.number(m);
}

// In a list, the names, addresses and roles share prefixes with the previous entry.
template <class A>
void fields(A& a, Of<A, NodeInfo>& m, const NodeInfo& before) {
  a.number(m.id);
  a.name(m.name, before.name);
  a.address(m.address, before.address);
  a.name(m.role, before.role);
  a.number(m.port);
  a.number(m.nproc, 1, kMaxWorkersPerNode);
  a.number(m.node_rank, -1, kMaxNodesNamed);
}

template <class A>
void fields(A& a, Of<A, NodeInfo>& m) {
  fields(a, m, NodeInfo{});
}

template <class A>
void fields(A& a, Of<A, Round>& m) {
  fields(a, m.id);
  a.number(m.job);
  a.number(m.restart_count, 0, INT32_MAX);
  a.nodes(m.members);
}

template <class A>
void fields(A& a, Of<A, Inheritance>& m) {
  a.number(m.job);
  fields(a, m.until);
  a.list(m.ids, kMaxFormerIds);
  a.flag(m.unconfirmed);
}

}  // namespace muster
