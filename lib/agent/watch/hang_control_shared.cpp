// SPDX-License-Identifier: Apache-2.0
// HangControl in a multi-node job: queries the other nodes, inspects workers for them, judges if
// this node is the leader, and carries out this node's part of the verdict.
#include "agent/rounds/shared_rounds.hpp"
#include "agent/watch/hang_control.hpp"
#include "hang/report/findings_codec.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace muster {
namespace {

// Limits on the time that the coordinator allows: at most as long as an inspection by this node
// alone, and at least long enough to sample CPU times.
constexpr Duration kLookWithinMin = std::chrono::seconds(1);
constexpr Duration kLookWithinMax = std::chrono::seconds(25);

hang::NodeState state_of(const NodeAnswer& answer) {
  switch (answer.presence) {
    case Presence::answered:
      return answer.findings.empty() ? hang::NodeState::off : hang::NodeState::answered;
    case Presence::finished:
      return hang::NodeState::finished;
    case Presence::silent:
      return hang::NodeState::silent;
    case Presence::late:
      return hang::NodeState::late;
  }
  return hang::NodeState::late;
}

hang::NodeFindings findings_of(const NodeAnswer& answer) {
  hang::NodeFindings out;
  out.name = answer.name;
  out.rank_first = answer.ranks.first;
  out.ranks = answer.ranks.count;
  out.state = state_of(answer);
  out.waited = std::chrono::duration<double>(answer.silent_for).count();
  if (out.state == hang::NodeState::answered) {
    auto seen = hang::decode_findings(answer.findings);
    out.state = seen ? out.state : hang::NodeState::unreadable;
    out.evidence = seen ? std::move(*seen) : hang::Evidence{};
  }
  return out;
}

}  // namespace

void HangControl::inquire(const InquiryStep& step) {
  if (const auto* asked = std::get_if<LookNow>(&step)) {
    look(asked->question);
  } else if (const auto* all = std::get_if<JudgeNow>(&step)) {
    judge(*all);
  } else {
    hear(std::get<HearVerdict>(step).said);
  }
}

void HangControl::look(const Look& question) {
  const auto tell = [this, question](const hang::Evidence& seen) {
    const std::size_t most = std::min<std::size_t>(question.bytes_max, kMaxFindingsBytes);
    std::string findings = hang::encode_findings(hang::summary_of(seen), most);
    parts_.others->tell(LookedHere{{question.round, question.inquiry, std::move(findings)}});
  };
  if (!watch_.all_started()) {  // some workers are still being started
    tell({});
    return;
  }
  watch_.look(std::clamp(question.within, kLookWithinMin, kLookWithinMax), tell);
}

void HangControl::judge(const JudgeNow& all) {
  std::vector<hang::NodeFindings> nodes;
  for (const NodeAnswer& answer : all.nodes) {
    nodes.push_back(findings_of(answer));
  }
  hang::WholeVerdict whole = hang::judge_all(nodes);
  whole.told_by = setup_.hostname;
  whole.facts.automatic = !setup_.config.hang_timeout;
  whole.facts.action = setup_.config.on_hang;
  judged_here_ = all.inquiry;
  parts_.others->tell(
      JudgedHere{{all.round, all.inquiry, hang::encode_verdict(whole, kMaxVerdictBytes)}});
}

void HangControl::hear(const Judged& said) {
  const auto whole = hang::decode_verdict(said.verdict);
  if (said.verdict.empty() || !whole) {
    watch_.told(std::nullopt);
    if (!std::exchange(said_nobody_judges_, true)) {
      parts_.events.say(LogLevel::warning,
                        said.verdict.empty()
                            ? "the workers are making no progress, but the leader does not watch "
                              "for hangs; pass --hang-timeout on all nodes"
                            : whole.error().message);
    }
    return;
  }
  // Use the inquiry's number only once, because the next leader numbers its inquiries from one
  // again.
  block_is_here_ = std::exchange(judged_here_, 0) == said.inquiry;
  take_verdict(*whole);
}

// --on-hang applies to one rank, so only the node of that rank acts. The failure of the rank stops
// the round on all nodes.
void HangControl::take_verdict(const hang::WholeVerdict& whole) {
  const bool runs = !stopping_ && watch_.all_started();
  if (!whole.counts || !runs) {
    watch_.told(std::nullopt);
    return;
  }
  watch_.told(whole.verdict);
  hang::HangReport report{whole.verdict, whole.facts, watch_.seen()};
  report.told_by = block_is_here_ ? "" : whole.told_by;
  const auto& workers = watch_.workers();
  const bool acts =
      std::ranges::find(workers, whole.acting_rank, &hang::WatchedWorker::rank) != workers.end();
  if (acts && whole.facts.action != OnHang::report) {
    report.kills = whole.acting_rank;
  }
  found(std::move(report));
}

}  // namespace muster
