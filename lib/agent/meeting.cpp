// SPDX-License-Identifier: Apache-2.0
#include "agent/meeting.hpp"

#include "agent/files.hpp"
#include "agent/words.hpp"
#include "base/clock.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>

namespace muster {
namespace {

// A console that takes nothing does not hold up the rendezvous.
constexpr Duration kRollCallPatience = std::chrono::milliseconds(100);

constexpr std::size_t kWordsMax = 500;  // of a failure, as the others hear them

RollCallStyle style_of(const AgentSetup& setup) {
  RollCallStyle style;
  style.live = setup.stderr_is_terminal;
  style.columns = setup.stderr_columns;
  style.silent = setup.config.log_level > LogLevel::warning;
  return style;
}

// 16 random hexadecimal digits; 0 names nobody.
std::uint64_t number_from(std::string_view hex) {
  std::uint64_t number = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), number, 16);
  return std::max<std::uint64_t>(number, 1);
}

JobTerms terms_of(const LaunchConfig& config, const std::string& version) {
  JobTerms terms;
  terms.job_id = config.rdzv_id;
  terms.backend = config.rdzv_backend;
  terms.nodes_max = config.nodes_max;
  // The world of a static job is fixed.
  terms.nodes_min = config.rdzv_backend == "static" ? config.nodes_max : config.nodes_min;
  terms.max_restarts = config.max_restarts;
  terms.version = version;
  return terms;
}

// The latest moment at which the exception can have been raised; the end, where none is known.
// Error files hold whole seconds of this machine's clock.
double failed_at(const WorkerFailure& failure, double now) {
  const auto raised = failure.record ? failure.record->unix_seconds : std::nullopt;
  return raised ? std::min(*raised + 1, now) : now;
}

}  // namespace

Meeting::Meeting(asio::io_context& loop, const AgentSetup& setup, MeetingHost& host)
    : loop_(loop),
      setup_(setup),
      host_(host),
      roll_timer_(loop),
      roll_(style_of(setup)),
      round_(std::make_shared<const Round>()) {}

RendezvousSettings Meeting::settings() const {
  const LaunchConfig& config = setup_.config;
  const bool is_static = config.rdzv_backend == "static";
  RendezvousSettings out;
  out.core.terms = terms_of(config, setup_.version);
  out.core.endpoints = config.rdzv_endpoints;
  out.core.join_timeout = config.meeting.join_timeout;
  out.core.last_call = config.meeting.last_call_timeout;
  out.core.lease = config.meeting.lease;
  out.core.join_delay = config.meeting.join_delay;
  out.core.risk_two_worlds = config.meeting.risk_two_worlds;
  out.core.rank_order = config.rank_order;
  out.core.local_addr = config.local_addr;
  out.is_host = config.meeting.is_host;
  if (is_static) {
    // The workers of rank 0 have their store at the endpoint.
    out.core.fixed_store = Endpoint{config.master_addr, config.master_port};
    out.is_host = config.meeting.is_host.value_or(config.node_rank == 0);
  }
  out.self.id = number_from(std::string_view(setup_.random).substr(0, 16));
  out.self.name = setup_.hostname;
  out.self.nproc = config.nproc;
  out.self.role = config.role;
  out.self.node_rank = config.node_rank.value_or(-1);
  out.seed = number_from(std::string_view(setup_.random).substr(16, 16));
  if (config.port_range) {
    out.ports = PortRange{config.port_range->first, config.port_range->second};
  }
  return out;
}

Result<void> Meeting::start(MeetingMeans means) {
  lease_ = means.lease;
  await_round();
  auto node = RendezvousNode::start(loop_, settings(), std::move(means.sockets), *this);
  if (!node) {
    return std::unexpected(node.error());
  }
  node_ = std::move(*node);
  return {};
}

// -- from the supervisor ----------------------------------------------------------------------

void Meeting::tell_gone() {
  node_->tell(WorkersGone{});
}

void Meeting::report_finished() {
  await_round();
  node_->tell(WorkersFinished{});
}

void Meeting::leave(const std::string& reason) {
  node_->tell(LeaveAsked{reason});
}

Failed Meeting::message_of(const WorkerFailure& failure, Duration run_time) const {
  Failed message;
  message.round = round_->id;
  message.rank = failure.rank;
  message.exit_code = exit_code_of(failure);
  message.run_time = run_time;
  message.permanent = failure.spawn_error && failure.spawn_error->code != Errc::system;
  message.words = printable(describe_end(failure), kWordsMax);
  return message;
}

// The others stop their workers on the first word; the evidence for the report follows. Of those
// that failed after the stop, the ones that can prove an earlier exception may be the root cause.
void Meeting::report_failure(WorkerFailure failure, Duration run_time) {
  const double wall = wall_now_seconds();
  host_.add_record(failure);
  const double when = failed_at(failure, wall);
  const bool first = stopped_at_ == 0;
  const bool proven = first || when <= stopped_at_;
  if (!proven && was_stopped_by_us(failure, SIGTERM)) {
    return;
  }
  if (first) {
    stopped_at_ = when;
  }
  WorkerFailedHere failed;
  failed.message = message_of(failure, run_time);
  failed.message.consequence = !proven;
  const auto ago = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wall - when));
  failed.seen_at = std::max(steady_now() - ago, started_at_);
  node_->tell(std::move(failed));
  if (!proven) {
    return;
  }
  host_.add_last_words(failure);
  Evidence evidence;
  evidence.failure = std::move(failure);
  evidence.program = setup_.config.program.name;
  evidence.logs = host_.kept_logs();
  evidence.restarts = round_->restart_count;
  node_->tell(DetailsKnown{Details{round_->id, evidence.failure.rank, evidence_text(evidence)}});
}

void Meeting::check_lease() {
  const bool fenced = lease_ != nullptr && lease_->take_fence();
  if (lease_end_ && steady_now() >= *lease_end_) {
    node_->tell(NodeTick{});
  } else if (lease_end_ && fenced) {
    // Words that came while we did not run have prolonged the lease, but the guard was earlier.
    overslept_ = true;
    fence_workers("the guard has ended the workers");
  }
}

void Meeting::close() {
  roll_timer_.cancel();
  clear_line();
  close_store();
  if (lease_ != nullptr) {
    lease_->rest();
  }
}

// -- rounds -----------------------------------------------------------------------------------

RoundToRun Meeting::plan(const RunRound& run) {
  std::vector<NodeShare> shares;
  for (const NodeInfo& member : run.round->members) {
    shares.push_back(NodeShare{member.nproc, member.role});
  }
  RoundToRun out;
  out.nproc = setup_.config.nproc;
  const RoundTimes times{run.round->restart_count, host_.attempt()};
  const Endpoint store{run.master_addr, run.master_port};
  const auto assignment = assign(shares, static_cast<std::size_t>(run.group_rank), times, store);
  if (!assignment) {
    out.specs = std::unexpected(assignment.error());
    return out;
  }
  out.rank_first = assignment->rank_first;
  host_.log(LogLevel::info,
            fmt::format("round {}: group rank {} of {}, ranks {} to {} of {}, store on {}:{}",
                        run.round->id.number,
                        assignment->group_rank,
                        assignment->group_world_size,
                        assignment->rank_first,
                        assignment->rank_first + assignment->local_world_size - 1,
                        assignment->world_size,
                        assignment->master_addr,
                        assignment->master_port));
  out.specs = host_.prepare_round(*assignment);
  return out;
}

void Meeting::run_round(const RunRound& run) {
  clear_line();
  roll_timer_.cancel();
  if (run.group_rank != 0) {
    close_store();
  }
  round_ = run.round;
  started_at_ = steady_now();
  stopped_at_ = 0;
  host_.run_round(plan(run));
}

void Meeting::stop_workers(const std::string& reason) {
  host_.log(LogLevel::info, "stopping the workers for another round: " + reason);
  stopped_at_ = stopped_at_ == 0 ? wall_now_seconds() : stopped_at_;
  await_round();
  host_.handle(RegroupNotice{reason});
}

void Meeting::fence_workers(const std::string& reason) {
  stopped_at_ = stopped_at_ == 0 ? wall_now_seconds() : stopped_at_;
  say((overslept_ ? "this node did not run for longer than its lease" : reason) +
      ": its workers were ended, since the other nodes may go on without it");
  await_round();
  host_.handle(Fenced{reason});
}

void Meeting::lease_until(TimePoint when) {
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

void Meeting::ended(const NodeEnd& end) {
  std::visit(
      [this]<class End>(const End& how) {
        RoundClosed closed;
        if constexpr (std::is_same_v<End, EndClosed>) {
          closed.outcome = how.close.succeeded ? Outcome::succeeded : Outcome::failed;
          closed.close = how.close;
        } else if constexpr (std::is_same_v<End, EndFailed>) {
          closed.outcome = Outcome::not_started;
          closed.error = how.error;
          if (how.error.code == Errc::closed) {
            closed.error->code = Errc::unreachable;
          }
          const std::string there = roll_.summary();
          if (how.error.code == Errc::timed_out && !there.empty()) {
            closed.error->message += "; " + there;
          }
        } else if constexpr (std::is_same_v<End, EndLeft>) {
          closed.outcome = Outcome::interrupted;
        }
        host_.handle(closed);
      },
      end);
}

// -- the workers' store -----------------------------------------------------------------------

// A store of its own for each round, on the address that the workers will dial and no other; where
// that is not one of this machine's (it is translated on the way), on all of them.
Result<Meeting::Store> Meeting::make_store() {
  const LaunchConfig& config = setup_.config;
  Store store;
  if (config.rdzv_backend == "static") {
    auto server = node_->open_store_on_endpoint();
    if (!server) {
      return std::unexpected(server.error());
    }
    return Store{std::move(*server), config.master_addr};
  }
  const std::string& address = config.local_addr.empty() ? node_->address() : config.local_addr;
  PortRange range;
  if (config.port_range) {
    range = PortRange{config.port_range->first, config.port_range->second};
  }
  auto listener = listen_in_range(is_own_address(address) ? address : "::", range);
  if (!listener) {
    return std::unexpected(listener.error());
  }
  auto server = StoreServer::open(loop_, std::move(*listener));
  if (!server) {
    return std::unexpected(server.error());
  }
  return Store{std::move(*server), address};
}

void Meeting::open_store(RoundId round) {
  close_store();
  auto store = make_store();
  if (!store) {
    node_->tell(StoreFailed{round, store.error()});
    return;
  }
  store_ = std::move(store->server);
  node_->tell(StoreOpened{round, store->address, store_->port()});
}

void Meeting::close_store() {
  if (store_) {
    store_.reset();
    node_->store_closed();
  }
}

// -- words ------------------------------------------------------------------------------------

void Meeting::await_round() {
  roll_.begin(steady_now());
}

void Meeting::show_roll_call(const ShowRollCall& show) {
  const std::string words = roll_.take(steady_now(), show.call, show.trouble);
  if (!words.empty()) {
    write_last_words(2, words, kRollCallPatience);
  }
  arm_roll_call();
}

void Meeting::arm_roll_call() {
  const auto due = roll_.next_deadline();
  if (!due) {
    return;
  }
  roll_timer_.expires_at(*due);
  roll_timer_.async_wait([this](const asio::error_code& error) {
    if (error) {
      return;
    }
    if (const std::string words = roll_.tick(steady_now()); !words.empty()) {
      write_last_words(2, words, kRollCallPatience);
    }
  });
}

void Meeting::clear_line() {
  if (const std::string words = roll_.end(); !words.empty()) {
    write_last_words(2, words, kRollCallPatience);
  }
}

void Meeting::say(const std::string& words) {
  host_.log(LogLevel::warning, printable(words, kWordsMax));
}

}  // namespace muster
