// SPDX-License-Identifier: Apache-2.0
// The layout of messages about store clients, inquiries and slow ranks. Included by
// round_fields.hpp, which explains the method. Pure.
#pragma once

#include "rendezvous/wire/round_values.hpp"

namespace muster {

template <class A>
void fields(A& a, Of<A, Vouch>& m) {
  a.number(m.asker);
  a.number(m.sequence);
  a.number(m.asked);
  fields(a, m.client);
}

template <class A>
void fields(A& a, Of<A, Vouched>& m) {
  a.number(m.asker);
  a.number(m.sequence);
  a.number(m.asked);
  a.choice(m.answer, VouchAnswer::out_of_touch);
  a.name(m.node);
}

template <class A>
void fields(A& a, Of<A, Inquire>& m) {
  fields(a, m.round);
  a.number(m.heard);
  a.choice(m.topic, Topic::check);
  a.blob(m.request, kMaxInquiryBytes);
}

template <class A>
void fields(A& a, Of<A, Look>& m) {
  fields(a, m.round);
  a.number(m.inquiry);
  a.duration(m.within);
  a.number(m.bytes_max);
  a.choice(m.topic, Topic::check);
  a.blob(m.request, kMaxInquiryBytes);
}

template <class A>
void fields(A& a, Of<A, Looked>& m) {
  fields(a, m.round);
  a.number(m.inquiry);
  a.blob(m.findings, kMaxFindingsBytes);
  a.choice(m.topic, Topic::check);
}

template <class A>
void fields(A& a, Of<A, Judged>& m) {
  fields(a, m.round);
  a.number(m.inquiry);
  a.blob(m.verdict, kMaxVerdictBytes);
  a.choice(m.topic, Topic::check);
}

template <class A>
void fields(A& a, Of<A, WaitSum>& m) {
  a.number(m.rank, 0, INT32_MAX);
  a.flag(m.tells_step);
  a.number(m.step);
  a.name(m.group);
  a.number(m.operations);
  a.number(m.waits);
  a.duration(m.waited);
}

template <class A>
void fields(A& a, Of<A, Waited>& m) {
  fields(a, m.round);
  a.duration(m.at);
  a.list(m.sums, kMaxWaitSums);
}

}  // namespace muster
