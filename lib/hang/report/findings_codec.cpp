// SPDX-License-Identifier: Apache-2.0
#include "hang/report/findings_codec.hpp"

#include "hang/report/findings_archive.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace muster::hang {
namespace {

// A writing archive reads the value; a reading archive fills it.
template <class Archive, class Value>
using Of = std::conditional_t<Archive::kWrites, const Value, Value>;

constexpr int kMost = std::numeric_limits<int>::max();

}  // namespace

// -- findings ---------------------------------------------------------------------------------

template <class A>
void fields(A& a, Of<A, Operation>& m) {
  a.number(m.number);
  a.text(m.what, kWordBytesMax);
  a.number(m.peer, -1, kMost);
  a.number(m.age);
}

template <class A>
void fields(A& a, Of<A, Position>& m) {
  a.text(m.group, kWordBytesMax);
  a.number(m.rank, -1, kMost);
  a.number(m.size, 0, kMost);
  a.number(m.entered);
  a.list(m.recent, kFindingsDetails[0].operations);
  a.list(m.pending, kFindingsDetails[0].operations);
}

template <class A>
void fields(A& a, Of<A, OwnCause>& m) {
  a.choice(m.cause, Cause::node_silent);
  a.text(m.reason, kReasonBytesMax);
  a.text(m.collective, kWordBytesMax);
  a.number(m.holder, 0, kMost);
  a.number(m.holder_rank, -1, kMost);
  a.flag(m.on_gpu);
  a.texts(m.stack, kFindingsDetails[0].stack, kWordBytesMax);
}

template <class A>
void fields(A& a, Of<A, RankEvidence>& m) {
  a.number(m.rank, 0, kMost);
  a.number(m.local_rank, 0, kMost);
  a.flag(m.ended);
  a.seconds(m.quiet);
  a.seconds(m.lifeless);
  a.flag(m.strong);
  // A message always contains a cause, even if the rank has none.
  if constexpr (A::kWrites) {
    fields(a, m.own ? *m.own : OwnCause{});
  } else {
    fields(a, m.own.emplace());
  }
  a.list(m.positions, kPositionsToldMax);
}

template <class A>
void fields(A& a, Of<A, Evidence>& m) {
  a.seconds(m.limit);
  a.seconds(m.progress);
  a.list(m.ranks, kRanksOfNodeMax);
  a.texts(m.gaps, kGapsToldMax, kWordBytesMax);
}

// -- verdicts ---------------------------------------------------------------------------------

template <class A>
void fields(A& a, Of<A, Group>& m) {
  a.ranks(m.ranks);
  a.choice(m.cause, Cause::node_silent);
  a.text(m.reason, kReasonBytesMax);
  a.text(m.position, kWordBytesMax);
  a.texts(m.stack, kFindingsDetails[0].stack, kWordBytesMax);
  a.ranks(m.waits_for);
  a.texts(m.nodes, kNodesToldMax, kWordBytesMax);
}

template <class A>
void fields(A& a, Of<A, WholeVerdict>& m) {
  a.flag(m.counts);
  a.number(m.acting_rank, -1, kMost);
  a.text(m.told_by, kWordBytesMax);
  a.choice(m.verdict.cause, Cause::node_silent);
  a.ranks(m.verdict.ranks);
  a.text(m.verdict.reason, kReasonBytesMax);
  a.list(m.verdict.groups, kGroupsToldMax);
  a.texts(m.verdict.nodes, kNodesToldMax, kWordBytesMax);
  a.seconds(m.facts.quiet);
  a.seconds(m.facts.limit);
  a.flag(m.facts.automatic);
  a.choice(m.facts.action, OnHang::stop);
  a.texts(m.facts.gaps, kGapsToldMax, kWordBytesMax);
}

namespace {

template <class Value>
std::string encode(const Value& value) {
  std::string out;
  FindingsWriter writer(out);
  fields(writer, value);
  return out;
}

template <class Value>
Result<Value> decode(std::string_view bytes, std::string_view what) {
  Value out;
  FindingsReader reader(bytes);
  fields(reader, out);
  if (const std::string fault = reader.fault(); !fault.empty()) {
    return failure(Errc::protocol, fmt::format("{}: {}", what, fault));
  }
  return out;
}

template <class Item>
void keep_newest(std::vector<Item>& items, std::size_t most) {
  if (items.size() > most) {
    items.erase(items.begin(), items.end() - static_cast<std::ptrdiff_t>(most));
  }
}

Evidence reduced(const Evidence& summary, const FindingsDetail& detail) {
  Evidence out = summary;
  for (RankEvidence& rank : out.ranks) {
    for (Position& position : rank.positions) {
      // describe_position() shows the newest completed and the oldest pending operation.
      keep_newest(position.recent, detail.operations);
      position.pending.resize(std::min(position.pending.size(), detail.operations));
    }
    if (rank.own) {
      rank.own->stack.resize(std::min(rank.own->stack.size(), detail.stack));
    }
  }
  return out;
}

}  // namespace

std::string encode_findings(const Evidence& summary, std::size_t bytes_max) {
  Evidence told;
  std::string out;
  for (const FindingsDetail& detail : kFindingsDetails) {
    told = reduced(summary, detail);
    out = encode(told);
    if (out.size() <= bytes_max) {
      return out;
    }
  }
  // The leader reports how many ranks of this node are missing.
  while (out.size() > bytes_max && !told.ranks.empty()) {
    told.ranks.resize(told.ranks.size() / 2);
    out = encode(told);
  }
  return out;
}

Result<Evidence> decode_findings(std::string_view bytes) {
  return decode<Evidence>(bytes, "findings of a node");
}

std::string encode_verdict(const WholeVerdict& verdict, std::size_t bytes_max) {
  WholeVerdict told = verdict;
  std::string out = encode(told);
  // judge() puts the blamed groups first, so the last ones matter least.
  while (out.size() > bytes_max && !told.verdict.groups.empty()) {
    told.verdict.groups.resize(told.verdict.groups.size() / 2);
    out = encode(told);
  }
  // Always keeps the first rank. acting_rank is a separate field.
  while (out.size() > bytes_max && told.verdict.ranks.size() > 1) {
    told.verdict.ranks.resize(told.verdict.ranks.size() / 2);
    told.verdict.nodes.resize(std::min<std::size_t>(told.verdict.nodes.size(), 1));
    told.facts.gaps.clear();
    out = encode(told);
  }
  return out;
}

Result<WholeVerdict> decode_verdict(std::string_view bytes) {
  return decode<WholeVerdict>(bytes, "a verdict");
}

}  // namespace muster::hang
