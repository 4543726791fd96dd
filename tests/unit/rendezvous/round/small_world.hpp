// SPDX-License-Identifier: Apache-2.0
// SmallWorld: a few NodeCores that communicate without delay, for tests of their rules. Workers
// obey immediately. The only faults are those that a test causes; the simulator (tests/sim) covers
// the rest.
#pragma once

#include "rendezvous/round/node_core.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster {

struct SmallNode {
  std::unique_ptr<NodeCore> core;
  NodeInfo info;
  bool alive = true;
  bool obedient = true;  // its workers exit when told to
  std::optional<RunRound> running;
  int runs = 0;
  bool stops_planned = false;  // the last request to stop its workers was planned
  std::string ended;           // "closed", "failed: …", "left", "finished"
  std::optional<Close> close;
  RollCall roll_call;
  std::string trouble;
  std::optional<VouchAnswer> owner = VouchAnswer::ours;  // of connections; none: slow to answer
  int asked_for_owner = 0;
  std::map<std::uint64_t, std::string> vouched;  // client: "" if admitted, otherwise the reason
  std::vector<std::string> said;
  bool looks = true;  // answers immediately when asked what its workers do
  int asked_to_look = 0;
  bool judges = true;  // immediately answers "verdict <n>", n counted by the world
  std::vector<JudgeNow> judged;
  std::vector<HearWaits> waits;
  std::vector<RunMend> mends;
  std::vector<RefuseMend> refused_mends;
  std::vector<std::string> verdicts;
  std::vector<SuspectNode> suspects;
  std::optional<Memory> record;  // its last record
  bool records_at_once = true;   // otherwise a test feeds RoundRecorded
};

class SmallWorld {
 public:
  explicit SmallWorld(NodeSettings settings, NodeId first_id = 1000)
      : settings_(std::move(settings)), first_id_(first_id) {}

  // Its address is 10.0.0.<index + 1>, and its host also has fd00::<index + 1>. The endpoint's port
  // is 1, its own port 2. `memory`: the record of the previous agents.
  std::size_t add(const std::string& name,
                  bool hosts = false,
                  std::optional<Memory> memory = std::nullopt,
                  Duration reserve = {}) {
    const std::size_t index = nodes.size();
    NodeInfo info;
    info.id = first_id_ + index;
    info.name = name;
    info.address = "10.0.0." + std::to_string(index + 1);
    info.port = 2;
    nodes.push_back(SmallNode{});
    nodes.back().info = info;
    NodeSettings own = settings_;
    own.reserve = reserve;
    own.addresses = {"fd00::" + std::to_string(index + 1)};
    nodes.back().core = std::make_unique<NodeCore>(own, info, index);
    if (hosts) {
      host_ = index;
    }
    feed(index, ListenerKnown{info.address, info.port});
    NodeStarted started{hosts};
    started.memory = std::move(memory);
    feed(index, started);
    return index;
  }

  void feed(std::size_t index, const NodeEvent& event) {
    events_.emplace_back(index, event);
    settle();
  }

  // Lets time pass, deadline by deadline.
  void pass(Duration duration) {
    const TimePoint until = now_ + duration;
    while (true) {
      std::optional<std::size_t> next;
      TimePoint when = until;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto due = nodes[i].core->next_deadline();
        if (is_up(i) && due && *due <= when && (!next || *due < when)) {
          next = i;
          when = std::max(*due, now_);
        }
      }
      if (!next) {
        break;
      }
      now_ = when;
      feed(*next, NodeTick{});
    }
    now_ = until;
  }

  // The process dies: its kernel closes its connections and refuses new ones.
  void kill(std::size_t index) { kill_all({index}); }

  // Several at the same time.
  void kill_all(const std::set<std::size_t>& indexes) {
    for (const std::size_t index : indexes) {
      nodes[index].alive = false;
      nodes[index].running.reset();
    }
    for (const auto& [end, other] : std::map(ends_)) {
      if (indexes.contains(end.first)) {
        drop(end, LinkEnd::closed);
      }
    }
    settle();
  }

  // Its connections end, but it stays alive.
  void reset(std::size_t index) {
    for (const auto& [end, other] : std::map(ends_)) {
      if (end.first == index && ends_.contains(end)) {
        drop(end, LinkEnd::closed);
        events_.emplace_back(index, LinkClosed{end.second, LinkEnd::closed, "closed"});
      }
    }
    settle();
  }

  // Nothing reaches it or leaves it any more; connections stay open.
  void cut(std::size_t index) { cut_.insert(index); }

  void heal(std::size_t index) {
    cut_.erase(index);
    deaf_.erase(index);
  }

  // It still sends, but nothing reaches it any more.
  void deafen(std::size_t index) { deaf_.insert(index); }

  [[nodiscard]] TimePoint now() const { return now_; }

  std::vector<SmallNode> nodes;
  LeaderOffer offer;  // from the node that opens the store next

 private:
  using End = std::pair<std::size_t, LinkId>;  // a node and its id for the connection

  [[nodiscard]] bool is_up(std::size_t index) const {
    return nodes[index].alive && nodes[index].ended.empty();
  }

  [[nodiscard]] bool is_cut(std::size_t a, std::size_t b) const {
    return a != b && (cut_.contains(a) || cut_.contains(b));
  }

  void settle() {
    if (settling_) {
      return;
    }
    settling_ = true;
    while (!events_.empty()) {
      const auto [index, event] = events_.front();
      events_.pop_front();
      if (!is_up(index)) {
        continue;
      }
      NodeEffects out;
      nodes[index].core->step(now_, event, out);
      for (const NodeEffect& effect : out) {
        std::visit([&](const auto& asked) { perform(index, asked); }, effect);
      }
    }
    settling_ = false;
  }

  void drop(End end, LinkEnd how) {
    const auto found = ends_.find(end);
    if (found == ends_.end()) {
      return;
    }
    const End other = found->second;
    ends_.erase(found);
    ends_.erase(other);
    if (!is_cut(end.first, other.first)) {
      events_.emplace_back(other.first, LinkClosed{other.second, how, "closed"});
    }
  }

  void perform(std::size_t from, const OpenLink& asked) {
    for (std::size_t to = 0; to < nodes.size(); ++to) {
      const bool is_endpoint = asked.host == "endpoint" && to == host_;
      if (!is_endpoint && asked.host != nodes[to].info.address) {
        continue;
      }
      if (is_cut(from, to)) {
        events_.emplace_back(from, LinkClosed{asked.link, LinkEnd::unreachable, "no answer"});
      } else if (!is_up(to)) {
        events_.emplace_back(from, LinkClosed{asked.link, LinkEnd::refused, "refused"});
      } else {
        const End here{from, asked.link};
        const End there{to, accepted_ += 2};
        ends_[here] = there;
        ends_[there] = here;
        events_.emplace_back(to, LinkAccepted{there.second, nodes[from].info.address});
        events_.emplace_back(from, LinkOpened{asked.link});
      }
      return;
    }
    events_.emplace_back(from, LinkClosed{asked.link, LinkEnd::unreachable, "nobody there"});
  }

  void perform(std::size_t from, const SendMessage& asked) {
    const auto found = ends_.find({from, asked.link});
    const bool is_heard = found != ends_.end() && !deaf_.contains(found->second.first);
    if (is_heard && !is_cut(from, found->second.first)) {
      events_.emplace_back(found->second.first,
                           MessageReceived{found->second.second, asked.message});
    }
  }

  void perform(std::size_t from, const CloseLink& asked) {
    drop({from, asked.link}, LinkEnd::closed);
  }

  void perform(std::size_t from, const OpenStore& asked) {
    events_.emplace_back(from, StoreOpened{asked.round, nodes[from].info.address, 7, offer});
  }

  void perform(std::size_t from, const RecordRound& asked) {
    nodes[from].record = asked.memory;
    if (nodes[from].records_at_once) {
      events_.emplace_back(from, RoundRecorded{asked.memory.accepted->id});
    }
  }

  void perform(std::size_t from, const RunRound& asked) {
    nodes[from].running = asked;
    ++nodes[from].runs;
  }

  void perform(std::size_t from, const StopWorkers& asked) {
    nodes[from].stops_planned = asked.is_planned;
    if (nodes[from].obedient) {
      nodes[from].running.reset();
      events_.emplace_back(from, WorkersGone{});
    }
  }

  static void perform(std::size_t /*from*/, const UseJobKey& /*asked*/) {}

  void perform(std::size_t from, const FenceWorkers& /*asked*/) {
    nodes[from].running.reset();
    events_.emplace_back(from, WorkersGone{});
  }

  void perform(std::size_t from, const ShowRollCall& asked) {
    nodes[from].roll_call = asked.call;
    nodes[from].trouble = asked.trouble;
  }

  void perform(std::size_t from, const FindOwner& asked) {
    ++nodes[from].asked_for_owner;
    if (nodes[from].owner) {
      events_.emplace_back(from, OwnerFound{asked.question, *nodes[from].owner});
    }
  }

  void perform(std::size_t from, const VouchKnown& asked) {
    nodes[from].vouched[asked.client] = asked.refused ? asked.refused->message : "";
  }

  void perform(std::size_t from, const LookNow& asked) {
    ++nodes[from].asked_to_look;
    if (nodes[from].looks) {
      const Look& question = asked.question;
      events_.emplace_back(from,
                           LookedHere{{question.round,
                                       question.inquiry,
                                       "seen by " + nodes[from].info.name,
                                       question.topic}});
    }
  }

  void perform(std::size_t from, const JudgeNow& asked) {
    nodes[from].judged.push_back(asked);
    if (nodes[from].judges) {
      const std::string verdict = "verdict " + std::to_string(++verdicts_);
      events_.emplace_back(from, JudgedHere{{asked.round, asked.inquiry, verdict, asked.topic}});
    }
  }

  void perform(std::size_t from, const HearVerdict& asked) {
    nodes[from].verdicts.push_back(asked.said.verdict);
  }

  void perform(std::size_t from, const HearWaits& heard) { nodes[from].waits.push_back(heard); }

  void perform(std::size_t from, const RunMend& run) { nodes[from].mends.push_back(run); }

  void perform(std::size_t from, const RefuseMend& refused) {
    nodes[from].refused_mends.push_back(refused);
  }

  void perform(std::size_t from, const SayNode& asked) { nodes[from].said.push_back(asked.text); }

  void perform(std::size_t from, const EndClosed& asked) {
    nodes[from].close = asked.close;
    end(from, "closed");
  }

  void perform(std::size_t from, const EndFailed& asked) {
    end(from, "failed: " + asked.error.message);
  }

  void perform(std::size_t from, const EndFinished& /*asked*/) { end(from, "finished"); }

  void perform(std::size_t from, const EndLeft& /*asked*/) { end(from, "left"); }

  void perform(std::size_t from, const EndReplaced& /*asked*/) { end(from, "replaced"); }

  void perform(std::size_t from, const SuspectNode& asked) {
    nodes[from].suspects.push_back(asked);
  }

  template <class Other>
  void perform(std::size_t /*from*/, const Other& /*asked*/) {}

  void end(std::size_t index, const std::string& how) {
    nodes[index].running.reset();
    nodes[index].ended = how;
    for (const auto& [end, other] : std::map(ends_)) {
      if (end.first == index) {
        drop(end, LinkEnd::closed);
      }
    }
  }

  NodeSettings settings_;
  NodeId first_id_;
  TimePoint now_ = TimePoint(std::chrono::hours(1));
  std::map<End, End> ends_;
  std::deque<std::pair<std::size_t, NodeEvent>> events_;
  std::set<std::size_t> cut_;
  std::set<std::size_t> deaf_;
  std::size_t host_ = static_cast<std::size_t>(-1);
  LinkId accepted_ = 0;
  int verdicts_ = 0;
  bool settling_ = false;
};

}  // namespace muster
