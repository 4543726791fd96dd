// SPDX-License-Identifier: Apache-2.0
// The layout of messages about the replacement of single ranks. Included by round_fields.hpp, which
// explains the method. Pure.
#pragma once

#include "rendezvous/wire/round_values.hpp"

namespace muster {

template <class A>
void fields(A& a, Of<A, Lacking>& m) {
  fields(a, m.round);
  a.number(m.number);
  a.list(m.ranks, kMaxMendRanks);
  a.flag(m.holds_state);
  a.flag(m.out_of_memory);
  a.flag(m.tells_step);
  a.number(m.step);
  fields(a, m.cause);
  a.text(m.obstacle);
}

template <class A>
void fields(A& a, Of<A, Mended>& m) {
  fields(a, m.round);
  a.number(m.epoch);
}

template <class A>
void fields(A& a, Of<A, Mend>& m) {
  fields(a, m.round);
  fields(a, m.mends);
  a.number(m.asker);
  a.number(m.number);
  a.list(m.ranks, kMaxMendRanks);
  a.number(m.cause, -1, INT32_MAX);
  a.text(m.reason);
}

template <class A>
void fields(A& a, Of<A, NoMend>& m) {
  fields(a, m.round);
  a.number(m.number);
  a.text(m.reason);
}

}  // namespace muster
