// SPDX-License-Identifier: Apache-2.0
// The lines of events.jsonl. EVENTS.md documents them; keep the two in sync.
#include "agent/events/event_text.hpp"
#include "agent/failures/report.hpp"
#include "agent/failures/report_json.hpp"
#include "base/json_dump.hpp"
#include "base/printable.hpp"
#include "check/check_json.hpp"

#include <utility>

namespace muster {
namespace {

using Named = std::pair<const char*, Json>;

void add_end(Json& json, const ExitStatus& status) {
  json["exit_code"] = status.shell_code();
  json["signal"] = status.signaled ? Json(signal_name(status.value)) : Json();
}

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return "trace";
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    default:
      return "error";
  }
}

Named named(const event::JobStarted& what) {
  return {"job_started",
          {{"program", what.program},
           {"workers", what.workers},
           {"max_restarts", what.max_restarts},
           {"version", what.version},
           {"job", what.job},
           {"launcher_pid", what.launcher_pid},
           {"scheduler_job", what.scheduler_job}}};
}

Named named(const event::HttpOpened& what) {
  return {"http_opened", {{"address", what.address}, {"port", what.port}}};
}

Named named(const event::RoundAwaited& /*what*/) {
  return {"round_awaited", Json::object()};
}

Named named(const event::PartDone& /*what*/) {
  return {"part_done", Json::object()};
}

Named named(const event::RollCallHeard& what) {
  return {"roll_call",
          {{"present", what.call.present},
           {"needed", what.call.needed},
           {"nodes", what.call.names},
           {"awaited", what.call.awaited},
           {"refused", what.call.refused},
           {"trouble", what.trouble}}};
}

Json nodes_json(const std::vector<RoundNode>& nodes) {
  Json out = Json::array();
  for (const RoundNode& node : nodes) {
    out.push_back({{"name", node.name}, {"address", node.address}, {"workers", node.workers}});
  }
  return out;
}

Json names_json(const std::vector<channel::NodeRanks>& nodes) {
  Json out = Json::array();
  for (const channel::NodeRanks& node : nodes) {
    out.push_back(node.node);
  }
  return out;
}

Named named(const event::RoundBegun& what) {
  const Assignment& here = what.assignment;
  return {"round_begun",
          {{"attempt", here.attempt},
           {"restarts", here.restart_count},
           {"group_rank", here.group_rank},
           {"group_world_size", here.group_world_size},
           {"rank_first", here.rank_first},
           {"workers", here.local_world_size},
           {"world_size", here.world_size},
           {"store_address", here.master_addr},
           {"store_port", here.master_port},
           {"logs", what.logs},
           {"nodes", nodes_json(what.nodes)},
           {"left", names_json(what.change.left)},
           {"joined", names_json(what.change.joined)}}};
}

Named named(const event::WorkerStarted& what) {
  return {"worker_started",
          {{"rank", what.rank}, {"local_rank", what.local_rank}, {"pid", what.pid}}};
}

Named named(const event::WorkerEnded& what) {
  Json json{{"rank", what.rank}, {"local_rank", what.exit.local_rank}, {"pid", what.exit.pid}};
  json["end"] = describe_end(what.exit);
  add_end(json, what.exit.status);
  json["out_of_memory"] = what.exit.out_of_memory;
  return {what.reaped ? "worker_ended" : "worker_dying", std::move(json)};
}

Named named(const event::WorkerReady& what) {
  return {"worker_ready", {{"rank", what.rank}, {"local_rank", what.local_rank}}};
}

Named named(const event::WorkerHealthy& what) {
  return {"worker_healthy", {{"rank", what.rank}, {"local_rank", what.local_rank}}};
}

Named named(const event::WorkerUnhealthy& what) {
  return {"worker_unhealthy",
          {{"rank", what.rank}, {"local_rank", what.local_rank}, {"why", what.why}}};
}

Named named(const event::WorkerToldEvent& what) {
  return {"worker_event",
          {{"rank", what.rank},
           {"local_rank", what.local_rank},
           {"data", Json::parse(what.data, nullptr, false)}}};
}

Named named(const WorkerFailure& what) {
  return {"worker_failed", failure_json(what)};
}

Named named(const event::RestartDecided& what) {
  return {"restart",
          {{"rank", what.rank},
           {"local_rank", what.local_rank},
           {"pid", what.pid},
           {"restart", what.restart},
           {"restarts_left", what.restarts_left},
           {"replaced", what.replaced},
           {"text", what.text}}};
}

Named named(const event::Mended& what) {
  return {"mended", {{"ranks", what.ranks}, {"seconds", what.seconds}}};
}

Named named(const event::NodesChecked& what) {
  Json fields = Json::parse(check::encode(what.verdict), nullptr, false);
  fields["seconds"] = what.seconds;
  return {"check", std::move(fields)};
}

Named named(const event::PreemptionBegun& what) {
  return {"preempt",
          {{"why", what.why},
           {"seconds", what.seconds},
           {"step", what.step ? Json(*what.step) : Json()},
           {"scope", what.is_of_node ? "node" : "job"}}};
}

Named named(const event::StepSaved& what) {
  return {"saved", {{"rank", what.rank}, {"local_rank", what.local_rank}, {"step", what.step}}};
}

Named named(const event::FirstStep& what) {
  return {"first_step", {{"local_rank", what.local_rank}, {"step", what.step}}};
}

Named named(const event::RolledBack& what) {
  return {"rolled_back", {{"seconds", what.seconds}}};
}

Named named(const event::RestartDelayed& what) {
  return {"restart_delayed", {{"seconds", what.seconds}}};
}

Named named(const event::RegroupAsked& what) {
  return {"regroup",
          {{"reason", what.reason}, {"gone_first", what.gone.first}, {"gone", what.gone.count}}};
}

Named named(const event::NodeFenced& what) {
  return {"fenced", {{"reason", what.reason}}};
}

Named named(const SuspectedNode& what) {
  return {"node_suspected",
          {{"suspect", what.node},
           {"cause", what.cause},
           {"replaced", what.is_replaced},
           {"text", what.text}}};
}

Named named(const event::SignalTaken& what) {
  return {"signal", {{"signal", signal_name(what.signo)}, {"sender", what.sender}}};
}

Named named(const event::WorkersSignalled& what) {
  return {"workers_signalled", {{"signal", signal_name(what.signo)}}};
}

Named named(const event::WorkersKilled& /*what*/) {
  return {"workers_killed", Json::object()};
}

Named named(const event::LeftoversFound& what) {
  static constexpr const char* kFates[] = {"awaited", "asked", "killed"};
  Json processes = Json::array();
  for (const Leftover& one : what.processes) {
    processes.push_back(
        {{"pid", one.pid}, {"name", one.command}, {"rank", one.rank ? Json(*one.rank) : Json()}});
  }
  return {"leftovers", {{"fate", kFates[static_cast<int>(what.fate)]}, {"processes", processes}}};
}

Named named(const event::HangFound& what) {
  static constexpr const char* kActions[] = {"report", "restart", "stop"};
  return {"hang",
          {{"ranks", what.verdict.ranks},
           {"cause", hang::name_of(what.verdict.cause)},
           {"reason", what.verdict.reason},
           {"nodes", what.verdict.nodes},
           {"quiet", what.facts.quiet},
           {"limit", what.facts.limit},
           {"action", kActions[static_cast<int>(what.facts.action)]},
           {"folder", what.facts.folder},
           {"text", hang::block_of(what.verdict, what.facts)}}};
}

Named named(const event::HangOver& what) {
  return {"hang_over", {{"quiet", what.quiet}}};
}

Json or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

// Empty in a single-node job.
Json places_json(const std::vector<straggler::SlowPlace>& places) {
  Json out = Json::array();
  for (const straggler::SlowPlace& place : places) {
    out.push_back({{"node", place.node}, {"ranks", place.ranks}, {"whole", place.whole}});
  }
  return out;
}

Named named(const straggler::Named& what) {
  return {"straggler",
          {{"ranks", what.slow.ranks},
           {"share", what.slow.share},
           {"step_seconds", or_null(what.slow.step_seconds)},
           {"lost_seconds", or_null(what.slow.lost_seconds)},
           {"places", places_json(what.slow.places)},
           {"text", straggler::describe(what.slow)}}};
}

Named named(const straggler::Over& what) {
  return {"straggler_over", {{"ranks", what.ranks}, {"places", places_json(what.places)}}};
}

Named named(const event::Message& what) {
  return {"message", {{"level", level_name(what.level)}, {"text", what.text}}};
}

Named named(const event::JobEnded& what) {
  return {"job_ended", end_json(what.result)};
}

}  // namespace

std::string event_json(const JobEvent& event) {
  auto [name, fields] = std::visit([](const auto& what) { return named(what); }, event.what);
  Json json;
  json["v"] = kEventsVersion;
  json["time"] = event.unix_time;
  json["event"] = name;
  json["node"] = event.node;
  json["round"] = event.round;
  json.update(fields);
  const std::string text = dump_json(std::move(json));
  return without_hidden_marks(text) + "\n";
}

}  // namespace muster
