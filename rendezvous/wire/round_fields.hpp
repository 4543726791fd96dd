// SPDX-License-Identifier: Apache-2.0
// The layout of each frame's body, defined only once: a writing archive (FieldWriter) and a reading
// one (FieldReader) visit the same fields in the same order, so they always agree. Included only by
// the encoder and the decoder. Pure.
#pragma once

#include "rendezvous/wire/ending_fields.hpp"
#include "rendezvous/wire/memory.hpp"
#include "rendezvous/wire/mend_fields.hpp"
#include "rendezvous/wire/question_fields.hpp"
#include "rendezvous/wire/round_values.hpp"

#include <cstdint>

namespace muster {

template <class A>
void fields(A& a, Of<A, Introduction>& m) {
  a.choice(m.proofs, Proofs::all);
  a.text(m.job);
}

template <class A>
void fields(A& a, Of<A, Memory>& m) {
  a.round(m.started);
  a.round(m.accepted);
  a.round(m.base);
  a.list(m.ids, kMaxFormerIds);
  a.name(m.owner);
}

template <class A>
void fields(A& a, Of<A, Hello>& m) {
  a.choice(m.purpose, Purpose::carry);
  fields(a, m.terms);
  fields(a, m.node);
  fields(a, m.started);
  fields(a, m.accepted);
  a.number(m.lost);
  a.flag(m.waited);
  a.flag(m.running);
  a.flag(m.coordinates);
  a.flag(m.has_quorum);
  fields(a, m.inherits);
  fields(a, m.mends);
  a.duration(m.reserve);
  a.addresses(m.addresses);
}

template <class A>
void fields(A& a, Of<A, Rounds>& m) {
  a.round(m.started);
  a.round(m.accepted);
  a.round(m.base);
}

template <class A>
void fields(A& a, Of<A, Beat>& m) {
  a.number(m.sequence);
  a.number(m.heard);
}

template <class A>
void fields(A& a, Of<A, Ready>& m) {
  a.flag(m.lost_touch);
}

template <class A>
void fields(A& a, Of<A, Accept>& m) {
  fields(a, m.round);
  a.name(m.store_addr);
  a.number(m.store_port);
  fields(a, m.offer);
}

template <class A>
void fields(A& a, Of<A, Failed>& m) {
  fields(a, m.round);
  a.number(m.rank, -1, INT32_MAX);
  a.number(m.exit_code);
  a.duration(m.age);
  a.duration(m.run_time);
  a.flag(m.permanent);
  a.flag(m.exited);
  a.flag(m.consequence);
  a.name(m.node_cause);
  a.text(m.text);
}

template <class A>
void fields(A& a, Of<A, Details>& m) {
  fields(a, m.round);
  a.number(m.rank, -1, INT32_MAX);
  a.blob(m.blob);
}

template <class A>
void fields(A& a, Of<A, Stopping>& m) {
  fields(a, m.round);
}

template <class A>
void fields(A& a, Of<A, Finished>& m) {
  fields(a, m.round);
}

template <class A>
void fields(A& a, Of<A, Carry>& m) {
  a.blob(m.bytes);
}

template <class A>
void fields(A& a, Of<A, Welcome>& m) {
  fields(a, m.coordinator);
  a.duration(m.lease, kMinLease);
  a.name(m.job_key);
}

// This layout is the same in all versions and must never change.
template <class A>
void fields(A& a, Of<A, Refuse>& m) {
  a.choice(m.why, Refusal::wrong_token);
  a.text(m.text);
}

template <class A>
void fields(A& a, Of<A, Redirect>& m) {
  fields(a, m.coordinator);
}

template <class A>
void fields(A& a, Of<A, Claim>& m) {
  fields(a, m.node);
  fields(a, m.coordinator);
  fields(a, m.started);
  a.flag(m.has_quorum);
  fields(a, m.inherits);
}

template <class A>
void fields(A& a, Of<A, Pong>& m) {
  a.number(m.sequence);
  a.flag(m.granted);
}

template <class A>
void fields(A& a, Of<A, RollCall>& m) {
  a.number(m.present);
  a.number(m.needed);
  a.texts(m.names, kRollCallNamesMax);
  a.texts(m.awaited, kMaxRollCallLines);
  a.texts(m.refused, kMaxRollCallLines);
}

template <class A>
void fields(A& a, Of<A, Propose>& m) {
  a.round(m.round);
  a.round(m.base);
}

template <class A>
void fields(A& a, Of<A, Start>& m) {
  fields(a, m.round);
  a.name(m.master_addr);
  a.number(m.master_port);
  a.number(m.restarts, 0, INT32_MAX);
  fields(a, m.offer);
}

}  // namespace muster
