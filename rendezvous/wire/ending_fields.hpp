// SPDX-License-Identifier: Apache-2.0
// The layout of messages that end a round or the job. Included by round_fields.hpp, which explains
// the method. Pure.
#pragma once

#include "rendezvous/wire/round_values.hpp"

#include <cstdint>

namespace muster {

template <class A>
void fields(A& a, Of<A, Leave>& m) {
  a.text(m.reason);
  a.flag(m.workers_gone);
  a.flag(m.is_planned);
}

template <class A>
void fields(A& a, Of<A, Regroup>& m) {
  a.text(m.reason);
  a.number(m.gone.first, 0, INT32_MAX);
  a.number(m.gone.count, 0, kMaxWorkersPerNode);
  a.flag(m.is_planned);
}

template <class A>
void fields(A& a, Of<A, Dismiss>& m) {
  a.text(m.reason);
}

template <class A>
void fields(A& a, Of<A, OtherFailure>& m) {
  a.number(m.rank, -1, INT32_MAX);
  a.name(m.node);
  a.text(m.text);
}

template <class A>
void fields(A& a, Of<A, Close>& m) {
  a.flag(m.succeeded);
  a.number(m.exit_code);
  a.text(m.reason);
  a.number(m.root_rank, -1, INT32_MAX);
  a.name(m.root_node);
  a.text(m.root_text);
  a.blob(m.details);
  a.number(m.others_count, 0, INT32_MAX);
  a.list(m.others, kOtherFailuresMax);
}

}  // namespace muster
