// SPDX-License-Identifier: Apache-2.0
// How RoundCore handles joining nodes: it refuses or welcomes them, and sends them what they
// missed.
#include "base/mark.hpp"
#include "rendezvous/round/leader/round_core.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace muster {
namespace {

// Any peer can invent node ids, so the map is limited. Clearing it only delays the decision about
// rivals.
constexpr std::size_t kRivalsMax = 256;

}  // namespace

// Any peer can send a query, so the reply repeats the peer's job id and reveals nothing about ours.
Refuse other_job(const std::string& theirs) {
  return Refuse{Refusal::wrong_job,
                fmt::format("the endpoint serves a different job than '{}'; use another port for "
                            "another job, or the same --rdzv-id",
                            theirs)};
}

// -- attachment -------------------------------------------------------------------------------

std::optional<Refuse> RoundCore::refusal_of(TimePoint now, const Hello& hello) const {
  const JobTerms& ours = settings_.terms;
  const JobTerms& theirs = hello.terms;
  // Both the leader and the refused node print this text.
  const auto differ = [](std::string_view what, const auto& job, const auto& node) {
    return Refuse{
        Refusal::wrong_terms,
        fmt::format("{} is {} in the job and {} on the refused node; all nodes need the same "
                    "command line",
                    what,
                    job,
                    node)};
  };
  // Check this first, because the other refusals contain our settings.
  if (theirs.job_id != ours.job_id) {
    return other_job(theirs.job_id);
  }
  if (theirs.version != ours.version) {
    return Refuse{Refusal::wrong_version,
                  fmt::format("the job runs muster {}, but the refused node runs {}; all nodes "
                              "need the same version",
                              ours.version,
                              theirs.version)};
  }
  if (theirs.backend != ours.backend) {
    return differ("--rdzv-backend", ours.backend, theirs.backend);
  }
  if (theirs.nodes_min != ours.nodes_min || theirs.nodes_max != ours.nodes_max) {
    return differ("--nnodes",
                  fmt::format("{}:{}", ours.nodes_min, ours.nodes_max),
                  fmt::format("{}:{}", theirs.nodes_min, theirs.nodes_max));
  }
  if (theirs.max_restarts != ours.max_restarts) {
    return differ("--max-restarts", ours.max_restarts, theirs.max_restarts);
  }
  if (theirs.mends != ours.mends) {
    const auto name = [](bool mends) { return mends ? "rank" : "group"; };
    return differ("--restart", name(ours.mends), name(theirs.mends));
  }
  if (theirs.leader_ports != ours.leader_ports) {
    return differ(
        "--leader-ports (plus 1 for JAX, see --env-for)", ours.leader_ports, theirs.leader_ports);
  }
  // 0 means that this side does not compare programs.
  const bool is_compared =
      theirs.program != 0 && ours.program != 0 && hello.node.role == self_.role;
  if (is_compared && theirs.program != ours.program) {
    return Refuse{
        Refusal::wrong_terms,
        fmt::format("the job runs '{}', but the refused node runs '{}'; for a separate job "
                    "use a different --rdzv-id and port; to run both programs in one "
                    "job, set --rdzv-conf=any_program=true on all nodes",
                    ours.command,
                    theirs.command)};
  }
  return refusal_of_place(now, hello);
}

// Each node needs its own node_rank if the backend is static or the platform numbers the nodes. In
// the latter case, a silent holder does not count, because it may be the same node before a
// restart.
const RoundCore::Node* RoundCore::holder_of_place(TimePoint now, const Hello& hello) const {
  const NodeInfo& comes = hello.node;
  const bool is_static = settings_.terms.backend == "static";
  if (!is_static && (!settings_.nodes_are_numbered || comes.node_rank < 0)) {
    return nullptr;
  }
  const auto found = std::ranges::find_if(nodes_, [&](const auto& entry) {
    const auto& [id, node] = entry;
    const bool is_there = is_static ? node.attached : live_link_of(now, id).has_value();
    const bool is_itself = id == comes.id || std::ranges::count(hello.inherits.ids, id) > 0;
    return is_there && !is_itself && node.info.node_rank == comes.node_rank;
  });
  return found != nodes_.end() ? &found->second : nullptr;
}

std::optional<Refuse> RoundCore::refusal_of_place(TimePoint now, const Hello& hello) const {
  const NodeInfo& comes = hello.node;
  const Node* const holder = holder_of_place(now, hello);
  if (holder == nullptr) {
    return std::nullopt;
  }
  return Refuse{Refusal::wrong_terms,
                fmt::format("--node-rank={} is taken by '{}' ({}), and '{}' ({}) requests it too; "
                            "each node needs a different one",
                            comes.node_rank,
                            holder->info.name,
                            holder->info.address,
                            comes.name,
                            comes.address)};
}

// A lost pod or host may return with another address soon after its old connection has fallen
// silent. The current holder keeps the rank only if it sends a message after the newcomer arrived.
// Until then the newcomer's connection is closed without an answer, and the newcomer retries.
bool RoundCore::is_place_in_doubt(TimePoint now, const Hello& hello) {
  const Node* const holder = holder_of_place(now, hello);
  if (holder == nullptr || settings_.terms.backend == "static") {
    return false;
  }
  if (rivals_.size() >= kRivalsMax) {
    rivals_.clear();
  }
  const TimePoint since = rivals_.try_emplace(hello.node.id, now).first->second;
  return holder->heard <= since;
}

// The refused node has exited. If too few nodes remain without it, they would only wait until the
// join timeout, so the job ends. After the first round, a refused node does not end the job.
void RoundCore::give_up_refused(TimePoint now, const std::string& reason, NodeEffects& out) {
  const bool is_first = base_->id.number == 0 && accepted_.empty();
  const auto least = static_cast<std::size_t>(settings_.terms.nodes_min);
  if (phase_ != Phase::gathering || !is_first || nodes_.size() >= least) {
    return;
  }
  Close ending;
  ending.exit_code = kUsageExitCode;
  ending.reason = reason;
  close(now, std::move(ending), out);
}

// A node with the same program and arguments belongs to this job, but was started with other
// options or another version of muster. A node with another program may belong to another job, and
// a node whose node_rank is taken may be a restarted node. Refusing a node with another program or
// a taken node_rank does not end the job.
void RoundCore::refuse(
    TimePoint now, LinkId link, const Hello& hello, const Refuse& why, NodeEffects& out) {
  MUSTER_MARK("a node is refused");
  refused_.insert_or_assign(hello.node.name, why.text);
  send(link, why, out);
  out.emplace_back(CloseLink{link});
  const bool is_ours = hello.terms.job_id == settings_.terms.job_id && hello.terms.program != 0 &&
                       hello.terms.program == settings_.terms.program;
  if (is_ours && !refusal_of_place(now, hello)) {
    give_up_refused(now, fmt::format("refused node '{}': {}", hello.node.name, why.text), out);
  }
}

void RoundCore::attach(TimePoint now, LinkId link, const Hello& hello, NodeEffects& out) {
  if (const auto refused = refusal_of(now, hello)) {
    if (is_place_in_doubt(now, hello)) {
      out.emplace_back(CloseLink{link});
      return;
    }
    refuse(now, link, hello, *refused, out);
    return;
  }
  succeed(now, hello, out);
  const NodeId id = hello.node.id;
  if (phase_ == Phase::closed && !is_member(id)) {
    send(link, Refuse{Refusal::closed, "the job has ended"}, out);
    out.emplace_back(CloseLink{link});
    return;
  }
  if (phase_ == Phase::stopping && deaf_.contains(id)) {
    out.emplace_back(CloseLink{link});  // otherwise the round would wait for the node again
    return;
  }
  const bool is_new = !nodes_.contains(id);
  Node& node = nodes_[id];
  if (is_new) {
    node.order = ++arrivals_;
  } else if (node.attached && node.link != link) {
    MUSTER_MARK("a node comes back on a new connection");
    links_.erase(node.link);
    out.emplace_back(CloseLink{node.link});
  }
  // The node's last coordinator may have granted leases to other nodes very recently.
  if (is_new && id != self_.id && !hello.waited && hello.lost != self_.id) {
    quiet_since_ = std::max(quiet_since_, now);
  }
  node.info = hello.node;
  node.link = link;
  node.attached = true;
  // The node counts once its first heartbeat has arrived, which acknowledges number 0, the Welcome.
  node.live = id == self_.id;
  node.heard = now;
  node.reserve_until = now + hello.reserve;
  node.pongs = {{0, now}};
  links_[link] = id;
  // Checking all members for each joining node would be quadratic.
  if (const auto loss = losses_.find(id); loss != losses_.end()) {
    expected_ += loss->second.given_up && is_member(id) ? 1U : 0U;
    losses_.erase(loss);
  }
  asker_.forget(id, out);
  claimants_.erase(id);
  refused_.erase(hello.node.name);
  rivals_.erase(id);
  send(link, Welcome{self_, settings_.lease}, out);
  const bool is_accepted_known =
      hello.accepted <= base_->id || std::ranges::any_of(accepted_, [&](const auto& known) {
        return known->id == hello.accepted;
      });
  // A record of another job does not matter, because our first proposal makes the node drop it. If
  // the node has started a round that we know only as a proposal, we request its rounds, and that
  // round becomes the last one (learn_rounds).
  node.knows_past =
      is_of_other_job(hello.inherits) || (hello.started <= base_->id && is_accepted_known);
  confirmed_ = confirmed_ || (!hello.inherits.unconfirmed && hello.started.number > 0);
  if (!node.knows_past) {
    MUSTER_MARK("a node knows rounds that its coordinator does not");
    send(link, ShowRounds{}, out);
  }
  recount(node);
  learn_mends(now, node, hello);
  resume(now, node, hello, out);
}

// If another node led the round, the node stops its workers without being asked.
void RoundCore::end_old_round(const Node& node, const Hello& hello, NodeEffects& out) const {
  if (hello.running && hello.started.coordinator == self_.id) {
    MUSTER_MARK("a node comes back with the workers of a round that has ended");
    send(node.link, Regroup{"the round has ended"}, out);
  }
}

// Sends the current state to a returning node or a member of the last round.
void RoundCore::resume(TimePoint now, Node& node, const Hello& hello, NodeEffects& out) {
  switch (phase_) {
    case Phase::idle:
    case Phase::gathering:
      set_state(node, State::unknown);
      end_old_round(node, hello, out);
      return;
    case Phase::proposing:
      set_state(node, State::unknown);
      end_old_round(node, hello, out);
      // The proposal or its Accept may have been lost with the old connection.
      if (is_in(*proposal_, node.info.id)) {
        abandon(now, out);
      }
      return;
    case Phase::running:
      if (!is_in_base(node.info.id)) {
        set_state(node, State::unknown);
        // The node then waits for the running job without a time limit (LinkCore::take_rounds).
        send(node.link, Rounds{base_, std::make_shared<const Round>(), base_}, out);
        return;
      }
      if (hello.started != base_->id && hello.accepted == base_->id) {
        // The node missed Start and is sending Ready. If another Start crossed that Ready, the node
        // would run alone.
        MUSTER_MARK("the order to start was lost with its connection");
        set_state(node, State::unknown);
        regroup(now, {fmt::format("node '{}' missed the start", node.info.name)}, true, out);
        return;
      }
      set_state(node, finished_.contains(node.info.id) ? State::finished : State::running);
      send_mend(node, hello.mends, out);
      return;
    case Phase::stopping:
      if (is_in_base(node.info.id)) {
        set_state(node, State::running);
        node.asked = now;
        send(node.link, regroup_, out);
      }
      return;
    case Phase::closed:
      send(node.link, *close_, out);
      return;
  }
}

// A later round that another coordinator started replaces ours.
void RoundCore::learn_rounds(TimePoint now, const Rounds& rounds) {
  // A newcomer that has accepted a proposal, but started no round, knows the last round only as
  // `base`.
  for (const RoundPtr& round : {rounds.started, rounds.base}) {
    if (round && round->id > base_->id) {
      set_base(inherited(round));
      // A failure counted in the previous round does not belong to this round.
      restart_count_ = round->restart_count;
    }
  }
  if (rounds.accepted) {
    accepted_.push_back(inherited(rounds.accepted));
  }
  const auto drop_older = [&] {
    std::erase_if(accepted_, [&](const RoundPtr& round) { return round->id <= base_->id; });
  };
  drop_older();
  if (base_->id.number == 0 && !accepted_.empty()) {
    // No round has started yet. All proposals depend on the first one (RoundCore::abandon).
    set_base(*std::ranges::min_element(accepted_, {}, [](const auto& round) { return round->id; }));
    drop_older();
  }
  restart_count_ = std::max(restart_count_, base_->restart_count);
  number_ = std::max(number_, base_->id.number);
  for (const RoundPtr& round : accepted_) {
    number_ = std::max(number_, round->id.number);
    restart_count_ = std::max(restart_count_, round->restart_count);
  }
  policy_ = RestartPolicy(limits_of(settings_), std::max(restart_count_, restarts_known_));
  await_missing(now);
  quorum_until_.reset();
  quorum_checked_ = TimePoint::min();
  count_expected(now);
}

}  // namespace muster
