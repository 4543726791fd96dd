// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

namespace muster::sim {
namespace {

// A NodeId for display: its last digits.
std::string words_of(NodeId id) {
  return fmt::format("{:x}", id & 0xffff);
}

// Nothing for the usual topic.
std::string words_of(Topic topic) {
  return topic == Topic::preemption ? " preemption" : "";
}

std::string words_of(const RoundPtr& round) {
  if (!round || round->id.number == 0) {
    return "none";
  }
  std::string members;
  for (std::size_t i = 0; i < round->members.size() && i < 8; ++i) {
    members += (i == 0 ? "" : ",") + round->members[i].name;
  }
  members += round->members.size() > 8 ? fmt::format(",… {}", round->members.size()) : "";
  return fmt::format(
      "{} [{}] restarts={}", sim::words_of(round->id), members, round->restart_count);
}

struct MessageText {
  std::string operator()(const Hello& m) const {
    return fmt::format(
        "Hello {} {} started={} accepted={}{}{}{}{}",
        m.purpose == Purpose::join ? "join" : "ask",
        m.node.name,
        sim::words_of(m.started),
        sim::words_of(m.accepted),
        m.lost == 0 ? "" : " lost=" + words_of(m.lost),
        m.running ? " running" : "",
        std::string(m.coordinates ? " coordinates" : "") +
            (m.inherits.ids.empty() ? "" : " was=" + words_of(m.inherits.ids.back())),
        m.has_quorum ? " quorum" : "");
  }

  std::string operator()(const Rounds& m) const {
    return fmt::format("Rounds started={} accepted={} base={}",
                       words_of(m.started),
                       words_of(m.accepted),
                       words_of(m.base));
  }

  std::string operator()(const Beat& m) const {
    return fmt::format("Beat {} heard={}", m.sequence, m.heard);
  }

  std::string operator()(const Ready& /*m*/) const { return "Ready"; }

  std::string operator()(const Accept& m) const {
    return "Accept " + sim::words_of(m.round) +
           (m.store_port == 0 ? "" : fmt::format(" store={}:{}", m.store_addr, m.store_port));
  }

  std::string operator()(const Failed& m) const {
    return fmt::format("Failed {} rank={} code={}{}{} '{}'",
                       sim::words_of(m.round),
                       m.rank,
                       m.exit_code,
                       m.permanent ? " permanent" : "",
                       m.consequence ? " consequence" : "",
                       m.text);
  }

  std::string operator()(const Details& m) const {
    return fmt::format("Details {} rank={}", sim::words_of(m.round), m.rank);
  }

  std::string operator()(const Stopping& m) const { return "Stopping " + sim::words_of(m.round); }

  std::string operator()(const Finished& m) const { return "Finished " + sim::words_of(m.round); }

  std::string operator()(const Carry& m) const {
    return fmt::format("Carry {} bytes", m.bytes.size());
  }

  std::string operator()(const Leave& m) const {
    return fmt::format("Leave '{}'{}", m.reason, m.workers_gone ? " workers gone" : "");
  }

  std::string operator()(const Welcome& m) const { return "Welcome to " + m.coordinator.name; }

  std::string operator()(const Refuse& m) const { return "Refuse '" + m.text + "'"; }

  std::string operator()(const Redirect& m) const { return "Redirect to " + m.coordinator.name; }

  std::string operator()(const Claim& m) const {
    return fmt::format("Claim {} follows={} started={}{}",
                       m.node.name,
                       m.coordinator.id == 0 ? "nobody" : m.coordinator.name,
                       sim::words_of(m.started),
                       m.has_quorum ? " quorum" : "");
  }

  std::string operator()(const Pong& m) const {
    return fmt::format("Pong {}{}", m.sequence, m.granted ? " granted" : "");
  }

  std::string operator()(const RollCall& m) const {
    return fmt::format(
        "RollCall {}/{} [{}] awaited [{}]{}",
        m.present,
        m.needed,
        fmt::join(m.names, ","),
        fmt::join(m.awaited, ","),
        m.refused.empty() ? "" : fmt::format(" refused [{}]", fmt::join(m.refused, ",")));
  }

  std::string operator()(const Propose& m) const {
    return "Propose " + words_of(m.round) +
           " base=" + (m.base ? sim::words_of(m.base->id) : "null");
  }

  std::string operator()(const Start& m) const {
    return fmt::format(
        "Start {} master={}:{}", sim::words_of(m.round), m.master_addr, m.master_port);
  }

  std::string operator()(const Regroup& m) const { return "Regroup '" + m.reason + "'"; }

  std::string operator()(const Dismiss& m) const {
    return m.reason.empty() ? "Dismiss" : "Dismiss, replaced by a spare";
  }

  std::string operator()(const Close& m) const {
    return fmt::format("Close {} code={} '{}' root={} {} '{}'",
                       m.succeeded ? "succeeded" : "failed",
                       m.exit_code,
                       m.reason,
                       m.root_rank,
                       m.root_node,
                       m.root_text);
  }

  std::string operator()(const ShowRounds& /*m*/) const { return "ShowRounds"; }

  std::string operator()(const Vouch& m) const {
    return fmt::format("Vouch {} of {}:{}", m.sequence, m.client.host, m.client.port);
  }

  std::string operator()(const Vouched& m) const {
    return fmt::format("Vouched {} {} by {}", m.sequence, static_cast<int>(m.answer), m.node);
  }

  std::string operator()(const Inquire& m) const {
    return fmt::format(
        "Inquire in {} heard={}{}", sim::words_of(m.round), m.heard, words_of(m.topic));
  }

  std::string operator()(const Look& m) const {
    return fmt::format("Look {}{}", m.inquiry, words_of(m.topic));
  }

  std::string operator()(const Looked& m) const {
    return fmt::format("Looked {} '{}'{}", m.inquiry, m.findings, words_of(m.topic));
  }

  std::string operator()(const Judged& m) const {
    return fmt::format("Judged {} '{}'{}", m.inquiry, m.verdict, words_of(m.topic));
  }

  std::string operator()(const Waited& m) const {
    return fmt::format("Waited in {}: {} sums", sim::words_of(m.round), m.sums.size());
  }

  std::string operator()(const Lacking& m) const {
    return fmt::format("Lacking {} {} in {} {}",
                       m.number,
                       fmt::join(m.ranks, ","),
                       sim::words_of(m.round),
                       m.obstacle);
  }

  std::string operator()(const Mended& m) const { return fmt::format("Mended {}", m.epoch); }

  std::string operator()(const Mend& m) const {
    return fmt::format(
        "Mend {} of {} for {}", m.mends.epoch, sim::words_of(m.round), fmt::join(m.ranks, ","));
  }

  std::string operator()(const NoMend& m) const {
    return fmt::format("NoMend {} {}", m.number, m.reason);
  }
};

struct EventText {
  std::string operator()(const LinkOpened& e) const { return fmt::format("open {}", e.link); }

  std::string operator()(const LinkClosed& e) const {
    return fmt::format("closed {} {}", e.link, e.text);
  }

  std::string operator()(const LinkAccepted& e) const {
    return fmt::format("accepted {} from {}", e.link, e.from);
  }

  std::string operator()(const MessageReceived& e) const {
    return fmt::format("{} < {}", e.link, sim::words_of(*e.message));
  }

  std::string operator()(const NodeStarted& e) const {
    return e.hosts ? "started, hosts" : "started";
  }

  std::string operator()(const EndpointBound& /*e*/) const { return "endpoint bound"; }

  std::string operator()(const RoundRecorded& e) const {
    return "recorded " + sim::words_of(e.round);
  }

  std::string operator()(const RecordFailed& e) const { return "not recorded: " + e.error.message; }

  std::string operator()(const ForgetNode& e) const { return "forget " + e.name; }

  std::string operator()(const ListenerKnown& e) const {
    return fmt::format("listens at {}:{}", e.address, e.port);
  }

  std::string operator()(const WorkersGone& /*e*/) const { return "workers gone"; }

  std::string operator()(const StoreOpened& e) const {
    return fmt::format("store opened {} {}:{}", sim::words_of(e.round), e.address, e.port);
  }

  std::string operator()(const StoreFailed& e) const {
    return fmt::format("store failed {} {}", sim::words_of(e.round), e.error.message);
  }

  std::string operator()(const WorkerFailedHere& e) const {
    return fmt::format("worker failed rank={} {}", e.message.rank, e.message.text);
  }

  std::string operator()(const Details& e) const {
    return fmt::format("details known rank={}", e.rank);
  }

  std::string operator()(const WorkersFinished& /*e*/) const { return "workers finished"; }

  std::string operator()(const LeaveAsked& e) const { return "asked to leave: " + e.reason; }

  std::string operator()(const VouchWanted& e) const {
    return fmt::format("client {} {}:{}", e.client, e.connection.host, e.connection.port);
  }

  std::string operator()(const OwnerFound& e) const {
    return fmt::format("owner of port {}: {}", e.question.client.port, static_cast<int>(e.answer));
  }

  std::string operator()(const InquireHere& /*e*/) const { return "no progress"; }

  std::string operator()(const LookedHere& e) const { return "seen: " + e.message.findings; }

  std::string operator()(const JudgedHere& e) const { return "judged: " + e.message.verdict; }

  std::string operator()(const LackingHere& e) const {
    return fmt::format("lacking {} {}", e.message.number, e.message.obstacle);
  }

  std::string operator()(const MendedHere& e) const { return fmt::format("in epoch {}", e.epoch); }

  std::string operator()(const WaitedHere& e) const {
    return fmt::format("waited: {} sums", e.message.sums.size());
  }

  std::string operator()(const TokenRefused& e) const { return "refused token of " + e.from; }

  std::string operator()(const NodeTick& /*e*/) const { return "tick"; }
};

struct EffectText {
  std::string operator()(const RunMend& e) const {
    return fmt::format("mend {} request={}", e.mends.epoch, e.number);
  }

  std::string operator()(const RefuseMend& e) const {
    return fmt::format("mend refused {}: {}", e.number, e.reason);
  }

  std::string operator()(const OpenLink& e) const {
    return fmt::format("dial {} {}:{}", e.link, e.host, e.port);
  }

  std::string operator()(const SendMessage& e) const {
    return fmt::format("{} > {}", e.link, sim::words_of(*e.message));
  }

  std::string operator()(const CloseLink& e) const { return fmt::format("close {}", e.link); }

  std::string operator()(const HostEndpoints& /*e*/) const { return "host the endpoints"; }

  std::string operator()(const BindEndpoint& /*e*/) const { return "bind the endpoint"; }

  std::string operator()(const RecordRound& e) const {
    return "record accepted=" + sim::words_of(e.memory.accepted->id) +
           " started=" + sim::words_of(e.memory.started->id);
  }

  std::string operator()(const OpenStore& e) const {
    return "open the store of " + sim::words_of(e.round);
  }

  std::string operator()(const RunRound& e) const {
    return fmt::format(
        "run {} as {} master={}:{}", words_of(e.round), e.group_rank, e.master_addr, e.master_port);
  }

  std::string operator()(const StopWorkers& e) const { return "stop workers: " + e.reason; }

  std::string operator()(const LeaseUntil& e) const {
    return fmt::format("lease until {:.3f}",
                       std::chrono::duration<double>(e.when.time_since_epoch()).count());
  }

  std::string operator()(const UseJobKey& /*e*/) const { return "use the job's key"; }

  std::string operator()(const FenceWorkers& e) const { return "fence workers: " + e.reason; }

  std::string operator()(const ShowRollCall& e) const {
    return "show " + MessageText{}(e.call) + (e.trouble.empty() ? "" : " trouble: " + e.trouble);
  }

  std::string operator()(const EndFinished& /*e*/) const { return "END finished"; }

  std::string operator()(const EndClosed& e) const { return "END " + MessageText{}(e.close); }

  std::string operator()(const EndFailed& e) const { return "END failed: " + e.error.message; }

  std::string operator()(const EndLeft& /*e*/) const { return "END left"; }

  std::string operator()(const EndReplaced& /*e*/) const { return "END replaced"; }

  std::string operator()(const FindOwner& e) const {
    return fmt::format("find the owner of port {}", e.question.client.port);
  }

  std::string operator()(const VouchKnown& e) const {
    return fmt::format("client {} {}",
                       e.client,
                       e.refused ? "refused: " + e.refused->message : std::string("let in"));
  }

  std::string operator()(const LookNow& e) const {
    return fmt::format("look for inquiry {}", e.question.inquiry);
  }

  std::string operator()(const JudgeNow& e) const {
    return fmt::format("judge inquiry {} of {} nodes", e.inquiry, e.nodes.size());
  }

  std::string operator()(const HearVerdict& e) const { return "verdict: " + e.said.verdict; }

  std::string operator()(const HearWaits& e) const {
    return fmt::format("waits of {}: {} sums", e.node, e.said.sums.size());
  }

  std::string operator()(const SuspectNode& e) const { return "suspect: " + e.text; }

  std::string operator()(const SayNode& e) const { return "say: " + e.text; }
};

bool is_beat(const RoundMessage& message) {
  return std::holds_alternative<Beat>(message) || std::holds_alternative<Pong>(message);
}

}  // namespace

std::string words_of(const RoundId& round) {
  return round.number == 0 ? "none"
                           : fmt::format("r{}@{}", round.number, words_of(round.coordinator));
}

std::string words_of(const RoundMessage& message) {
  return std::visit(MessageText{}, message);
}

std::string words_of(const NodeEvent& event) {
  return std::visit(EventText{}, event);
}

std::string words_of(const NodeEffect& effect) {
  return std::visit(EffectText{}, effect);
}

bool is_tick(const NodeEvent& event) {
  return std::holds_alternative<NodeTick>(event);
}

bool is_beat(const NodeEvent& event) {
  const auto* received = std::get_if<MessageReceived>(&event);
  return received != nullptr && is_beat(*received->message);
}

bool is_beat(const NodeEffect& effect) {
  const auto* sent = std::get_if<SendMessage>(&effect);
  return (sent != nullptr && is_beat(*sent->message)) || std::holds_alternative<LeaseUntil>(effect);
}

}  // namespace muster::sim
