// SPDX-License-Identifier: Apache-2.0
#include "agent/rounds/shared_rounds.hpp"

#include "agent/rounds/membership_change.hpp"
#include "agent/workers/files.hpp"
#include "base/clock.hpp"
#include "base/printable.hpp"
#include "io/own_address.hpp"
#include "io/socket_address.hpp"
#include "machine/own_addresses.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <type_traits>
#include <utility>

namespace muster {
namespace {

// Upper limit on the age of an exception, because a worker may write any timestamp.
constexpr double kOldestExceptionSeconds = 1e7;

// The latest possible time of the exception, if an error file contains its date. The date is in
// whole seconds of this host's wall clock.
std::optional<TimePoint> raised_at(const WorkerFailure& failure, TimePoint now) {
  const auto raised = failure.record ? failure.record->unix_seconds : std::nullopt;
  if (!raised) {
    return std::nullopt;
  }
  const double ago = std::clamp(wall_now_seconds() - (*raised + 1), 0.0, kOldestExceptionSeconds);
  return now - std::chrono::duration_cast<Duration>(std::chrono::duration<double>(ago));
}

// Names come from other hosts, so they are made printable.
std::vector<RoundNode> nodes_of(const Round& round) {
  std::vector<RoundNode> out;
  for (const NodeInfo& member : round.members) {
    out.push_back({printable(member.name), printable(member.address), member.nproc});
  }
  return out;
}

}  // namespace

SharedRounds::SharedRounds(asio::io_context& loop,
                           const AgentSetup& setup,
                           const SharedRoundsParts& parts)
    : loop_(loop),
      setup_(setup),
      user_(parts.user),
      run_folder_(parts.run_folder),
      events_(parts.events),
      roll_call_(parts.roll_call),
      admission_(parts.admission),
      vouching_([this](VouchWanted wanted) { node_->tell(std::move(wanted)); }),
      witness_(parts.sockets),
      round_(std::make_shared<const Round>()),
      ports_(setup.config) {}

void SharedRounds::start(std::unique_ptr<Rendezvous> rendezvous, const LeaseTimer* lease) {
  lease_ = lease;
  node_ = std::move(rendezvous);
  begin_waiting();
}

// -- from the supervisor ----------------------------------------------------------------------

void SharedRounds::tell_gone() {
  if (node_) {  // else this node has not joined yet
    node_->tell(WorkersGone{});
  }
}

void SharedRounds::report_finished() {
  begin_waiting();
  events_.tell(event::PartDone{});
  node_->tell(WorkersFinished{});
}

// Before this node has joined, there are no other nodes to notify.
void SharedRounds::leave_round(const LeaveRound& asked) {
  if (!node_) {
    RoundClosed closed;
    closed.outcome = Outcome::interrupted;
    user_.handle(closed);
    return;
  }
  node_->tell(LeaveAsked{asked.reason, asked.is_planned});
}

// The first message makes the other nodes stop their workers. The evidence for the report follows.
void SharedRounds::report_failure(const WorkerFailure& failure) {
  WorkerFailedHere failed;
  failed.message = failed_message(failure);
  failed.message.round = round_->id;
  failed.seen_at = steady_now();
  failed.raised_at = raised_at(failure, failed.seen_at);
  failed.was_stopped = was_stopped_by_us(failure, SIGTERM);
  failed.lost_connection = failure.lost_connection;
  node_->tell(std::move(failed));
  FailureStory story;
  story.root = failure;
  story.program = setup_.config.program.name;
  story.logs = run_folder_.kept_logs();
  story.attempt = round_->restart_count + 1;
  node_->tell(Details{round_->id, failure.rank, story_text(story)});
}

void SharedRounds::check_lease() {
  const bool fenced = lease_ != nullptr && lease_->take_fence();
  if (lease_end_ && steady_now() >= *lease_end_) {
    node_->check_deadlines();
  } else if (lease_end_ && fenced) {
    // This process was paused. Messages that it received afterwards renewed the lease, but by then
    // the guard had already killed the workers.
    overslept_ = true;
    fence_workers("the guard killed the workers");
  }
}

void SharedRounds::close() {
  proxy_.reset();
  close_store();
  if (lease_ != nullptr) {
    lease_->rest();
  }
}

// -- rounds -----------------------------------------------------------------------------------

Result<Assignment> SharedRounds::assignment_of(const RunRound& run) {
  std::vector<NodeShare> shares;
  for (const NodeInfo& member : run.round->members) {
    shares.push_back(NodeShare{member.nproc, member.role});
  }
  const RoundTimes times{run.round->restart_count, user_.starts(), run.round->id.number};
  const Endpoint store{run.master_addr, run.master_port};
  auto out = assign(shares, static_cast<std::size_t>(run.group_rank), times, store);
  auto ports = ports_.for_node();
  if (!out || !ports) {
    return std::unexpected(out ? ports.error() : out.error());
  }
  out->agent_store = run.offer.serves_store;
  set_leader_ports(*out, run.offer.ports, setup_.config.jax);
  out->ports = std::move(*ports);
  const auto& members = run.round->members;
  const std::string& own = members[static_cast<std::size_t>(run.group_rank)].address;
  if (members.size() > 1) {
    out->interface = interface_of(own, own_addresses().value_or(std::vector<OwnAddress>{}));
  }
  if (run.offer.is_carried) {
    out->leader_addr = members.front().address;
    out->node_addr = own;
  }
  return out;
}

RoundToRun SharedRounds::plan(const RunRound& run, event::MembershipChange change) {
  RoundToRun out;
  out.nproc = setup_.config.nproc;
  const auto assignment = assignment_of(run);
  if (!assignment) {
    out.specs = std::unexpected(assignment.error());
    events_.tell(event::RoundBegun{Assignment{}, true, {}, {}});
    return out;
  }
  current_ = *assignment;
  out.rank_first = assignment->rank_first;
  out.others = assignment->world_size - assignment->local_world_size;
  out.specs = run_folder_.prepare_round(*assignment);
  events_.tell(event::RoundBegun{*assignment,
                                 true,
                                 run_folder_.path(),
                                 run_folder_.kept_logs(),
                                 std::move(change),
                                 nodes_of(*run.round)});
  return out;
}

void SharedRounds::run_round(const RunRound& run) {
  RunRound seen = run;
  proxy_.reset();
  Result<void> proxy;
  if (run.group_rank != 0) {
    close_store();
    ports_.drop_store();
    proxy = open_proxy(seen);
  }
  event::MembershipChange change = membership_change(*round_, *run.round);
  round_ = run.round;
  events_.set_round(round_->id.number);
  RoundToRun round = plan(seen, std::move(change));
  if (!proxy) {
    round.specs = std::unexpected(proxy.error());
  }
  user_.run_round(std::move(round));
}

// The node with rank 0 decides whether workers connect to its store directly.
Result<void> SharedRounds::open_proxy(RunRound& run) {
  StoreCarrier* const carrier = node_->carrier();
  if (!run.offer.is_carried || carrier == nullptr) {
    return {};
  }
  carrier->drop_all();
  const NodeInfo& host = run.round->members.front();
  const CarrierTarget target{
      run.round->id, with_our_interface(host.address, node_->address()), host.port};
  auto proxy = StoreProxy::open(
      loop_,
      run.master_port,
      port_range_of(setup_.config),
      admission_,
      [carrier, target](UniqueFd worker) { carrier->carry(std::move(worker), target); });
  MUSTER_RETURN_IF_ERROR(proxy);
  proxy_ = std::move(*proxy);
  proxy_->set_notice([this](const std::string& text) { say(text); });
  run.master_addr = kProxyAddress;
  run.master_port = proxy_->port();
  return {};
}

void SharedRounds::stop_workers(const StopWorkers& stop) {
  events_.tell(event::RegroupAsked{stop.reason, stop.gone});
  begin_waiting();
  user_.handle(RegroupNotice{stop.reason, stop.is_planned});
}

void SharedRounds::fence_workers(const std::string& reason) {
  events_.tell(event::NodeFenced{overslept_ ? "this node was paused longer than its lease"
                                            : printable(reason, kNodeTextMax)});
  begin_waiting();
  user_.handle(Fenced{reason});
}

void SharedRounds::lease_until(TimePoint when) {
  const bool none = when == TimePoint::max();
  overslept_ = none && lease_end_ && steady_now() >= *lease_end_;
  lease_end_ = none ? std::nullopt : std::optional(when);
  if (lease_ == nullptr) {
    return;
  }
  if (none) {
    lease_->rest();
  } else {
    lease_->run_until(when);
  }
}

void SharedRounds::ended(const NodeEnd& end) {
  std::visit(
      [this]<class End>(const End& how) {
        RoundClosed closed;
        if constexpr (std::is_same_v<End, EndClosed>) {
          if (!how.close.succeeded && how.close.root_rank < 0) {  // no worker failure is the cause
            closed.outcome = Outcome::not_started;
            const bool is_usage = how.close.exit_code == kUsageExitCode;
            closed.error = Error{is_usage ? Errc::usage : Errc::timed_out, how.close.reason};
            user_.handle(closed);
            return;
          }
          if (how.close.succeeded && round_->id.number == 0) {
            say("the job has ended; this node was never needed and ran no workers");
          }
          closed.outcome = how.close.succeeded ? Outcome::succeeded : Outcome::failed;
          closed.close = how.close;
        } else if constexpr (std::is_same_v<End, EndFailed>) {
          if (setup_.rejoins && how.error.code == Errc::timed_out) {
            say("this node cannot find the job again; it has probably ended");
            user_.handle(closed);  // as succeeded: this node has done its part
            return;
          }
          closed.outcome = Outcome::not_started;
          closed.error = how.error;
          if (how.error.code == Errc::closed) {
            closed.error->code = Errc::unreachable;
          }
          const std::string there = roll_call_.summary();
          if (how.error.code == Errc::timed_out && !there.empty()) {
            closed.error->message += "; " + there;
          }
        } else if constexpr (std::is_same_v<End, EndLeft>) {
          closed.outcome = Outcome::interrupted;
        } else if constexpr (std::is_same_v<End, EndReplaced>) {
          closed.outcome = Outcome::replaced;
          closed.error = Error{
              Errc::closed,
              fmt::format("a spare takes the place of this node: {}. This node joins again, and is "
                          "a last resort for {}",
                          how.reason,
                          describe(setup_.config.rendezvous.cool_down))};
        }
        user_.handle(closed);
      },
      end);
}

// -- the workers' store -----------------------------------------------------------------------

// Opens a new store for each round. It listens only on the address that the workers connect to. If
// that address does not belong to this host (NAT), it listens on all addresses.
Result<SharedRounds::Store> SharedRounds::make_store() {
  const LaunchConfig& config = setup_.config;
  Store store;
  if (config.rdzv_backend == "static" && !is_proxy()) {
    auto server = node_->open_store_on_endpoint();
    MUSTER_RETURN_IF_ERROR(server);
    const std::uint16_t port = (*server)->port();
    return Store{std::move(*server), config.master_addr, port};
  }
  const std::string address = is_proxy()                  ? kProxyAddress
                              : config.local_addr.empty() ? node_->address()
                                                          : config.local_addr;
  if (!config.agent_store) {
    const auto port = ports_.for_store();
    return port ? Result<Store>(Store{nullptr, address, *port}) : std::unexpected(port.error());
  }
  auto listener =
      listen_in_range(is_own_address(address) ? address : "::", port_range_of(setup_.config));
  MUSTER_RETURN_IF_ERROR(listener);
  auto server = StoreServer::open(loop_, std::move(*listener));
  MUSTER_RETURN_IF_ERROR(server);
  const std::uint16_t port = (*server)->port();
  return Store{std::move(*server), address, port};
}

// Opens the store and reserves the ports that this node provides to all workers when it has rank 0.
Result<StoreOpened> SharedRounds::prepare_lead(RoundId round) {
  auto ports = ports_.for_leader();
  MUSTER_RETURN_IF_ERROR(ports);
  auto store = make_store();
  MUSTER_RETURN_IF_ERROR(store);
  store_ = std::move(store->server);
  if (store_) {
    store_->set_admission(&admission_, store_admission_limits(setup_.config.rendezvous.lease));
    store_->set_notice([this](const std::string& text) { say(text); });
  }
  if (StoreCarrier* const carrier = node_->carrier(); is_proxy() && carrier != nullptr) {
    carrier->set_store(CarriedStore{round, store->address, store->port});
  }
  return StoreOpened{round,
                     store->address,
                     store->port,
                     LeaderOffer{store_ != nullptr, std::move(*ports), is_proxy()}};
}

void SharedRounds::open_store(RoundId round) {
  close_store();
  const auto opened = prepare_lead(round);
  if (!opened) {
    node_->tell(StoreFailed{round, opened.error()});
    return;
  }
  node_->tell(*opened);
}

void SharedRounds::close_store() {
  if (StoreCarrier* const carrier = node_ ? node_->carrier() : nullptr) {
    carrier->set_store(std::nullopt);
  }
  if (store_) {
    store_.reset();
    node_->store_closed();
  }
}

// The querying host's link-local addresses contain its own interface name. We replace that name
// with ours. A node that gets no reply repeats its query.
void SharedRounds::find_owner(const FindOwner& question) {
  StoreClient client = question.question.client;
  client.host = with_our_interface(client.host, node_->address());
  client.store_host = with_our_interface(client.store_host, node_->address());
  if (const auto answer = witness_.owner_of(client)) {
    node_->tell(OwnerFound{question.question, *answer});
  }
}

void SharedRounds::vouch_known(const VouchKnown& known) {
  vouching_.known(known);
}

// -- inquiries and slow ranks ------------------------------------------------------------------

// Without --hang-timeout, this node replies that it found nothing.
void SharedRounds::inquire(const InquiryStep& step) {
  const Topic topic = topic_of(step);
  InquiryListener* const listener = listeners_[static_cast<std::size_t>(topic)];
  if (listener != nullptr) {
    listener->inquire(step);
  } else if (const auto* asked = std::get_if<LookNow>(&step)) {
    node_->tell(LookedHere{{asked->question.round, asked->question.inquiry, {}, topic}});
  } else if (const auto* all = std::get_if<JudgeNow>(&step)) {
    node_->tell(JudgedHere{{all->round, all->inquiry, {}, topic}});
  }
}

void SharedRounds::hear_waits(const HearWaits& heard) {
  if (waits_ != nullptr) {
    waits_->hear(heard);
  }
}

void SharedRounds::hear_suspect(const SuspectNode& suspect) {
  SuspectedNode told{printable(suspect.node, kNodeTextMax),
                     printable(suspect.cause, kNodeTextMax),
                     printable(suspect.text, kNodeTextMax),
                     suspect.is_replaced};
  told.text += fmt::format(" (last cause: {}); {}",
                           told.cause,
                           told.is_replaced ? "a spare takes its place" : "there is no spare");
  events_.tell(told);
  if (suspects_.size() < kSuspectsMax) {
    suspects_.push_back(std::move(told));
  }
}

// -- text -------------------------------------------------------------------------------------

void SharedRounds::begin_waiting() {
  events_.tell(event::RoundAwaited{});
}

void SharedRounds::show_roll_call(const ShowRollCall& show) {
  events_.tell(event::RollCallHeard{show.call, show.trouble});
}

void SharedRounds::log(LogLevel level, const std::string& text) {
  events_.say(level, printable(text, kNodeTextMax));
}

std::string forget(SharedRounds* rounds, const std::string& node) {
  if (rounds == nullptr) {
    return "this is a single-node job";
  }
  if (!rounds->node_) {
    return "this node has not joined the job yet";
  }
  const auto done = rounds->node_->forget(node);
  return done ? std::string() : done.error().message;
}

}  // namespace muster
