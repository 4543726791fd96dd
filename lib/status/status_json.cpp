// SPDX-License-Identifier: Apache-2.0
#include "status/status_json.hpp"

#include "base/printable.hpp"
#include "status/fold_account.hpp"
#include "status/json.hpp"
#include "status/step_times.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace muster {
namespace {

Json or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json or_null(double time) {
  return time == 0 ? Json() : Json(time);
}

// The state of the workers on any node, as far as this node can tell. The list of its own workers
// contains more detail.
std::string_view state_of_node(const JobStatus& status) {
  switch (status.phase) {
    case JobPhase::starting:
    case JobPhase::running:
    case JobPhase::finished:
      return "in_round";
    case JobPhase::waiting:
    case JobPhase::stopping:
      return "between_rounds";
    case JobPhase::ended:
      return "ended";
  }
  return "";
}

Json nodes_json(const JobStatus& status, const RoundStatus& round) {
  Json out = Json::array();
  const std::vector<std::string> labels = node_labels(round);
  int group_rank = 0;
  for (const NodeStatus& node : round.nodes) {
    out.push_back({{"name", labels.at(static_cast<std::size_t>(group_rank))},
                   {"address", or_null(node.address)},
                   {"group_rank", group_rank},
                   {"rank_first", node.rank_first},
                   {"workers", node.workers},
                   {"here", group_rank == round.group_rank},
                   {"state", state_of_node(status)}});
    ++group_rank;
  }
  return out;
}

// Four significant digits, because clients show fewer.
Json rounded(double value) {
  constexpr double kDigits = 1e4;
  if (value == 0 || !std::isfinite(value)) {
    return Json(0);
  }
  const double scale = kDigits / std::pow(10, std::ceil(std::log10(std::abs(value))));
  const double out = std::round(value * scale) / scale;
  return std::isfinite(out) ? Json(out) : Json(value);
}

Json rounded_or_null(const std::optional<double>& value) {
  return value ? rounded(*value) : Json();
}

// JSON has no numbers that are not finite.
Json number_json(double number) {
  if (std::isfinite(number)) {
    return Json(number);
  }
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

void add_stats(Json& json, const WorkerStats& stats) {
  json["step"] = stats.step ? Json(*stats.step) : Json();
  json["step_age"] = rounded_or_null(stats.step_age);
  json["steps_per_second"] = rounded_or_null(stats.steps_per_second);
  Json& numbers = json["numbers"] = Json::object();
  for (const auto& [name, number] : stats.numbers) {
    numbers[name] = number_json(number);
  }
  json["waits"] = stats.waits ? rounded(stats.waits->share) : Json();
  json["waited"] = stats.waits ? rounded(stats.waits->seconds) : Json();
  json["output_age"] = rounded_or_null(stats.output_age);
  json["cpus"] = rounded_or_null(stats.cpus);
  json["memory"] = stats.memory ? Json(*stats.memory) : Json();
  json["gpus"] = rounded_or_null(stats.gpus);
  json["gpu_memory"] = stats.gpu_memory ? Json(*stats.gpu_memory) : Json();
}

Json step_times_json(const StepChart& chart) {
  Json seconds = Json::array();
  for (const auto& one : chart.seconds) {
    seconds.push_back(rounded_or_null(one));
  }
  return {{"interval", std::chrono::duration<double>(kStepInterval).count()},
          {"end", or_null(chart.end)},
          {"seconds", std::move(seconds)}};
}

Json workers_json(const RoundStatus& round) {
  Json out = Json::array();
  for (const WorkerStatus& worker : round.workers) {
    out.push_back({{"rank", worker.rank},
                   {"local_rank", worker.local_rank},
                   {"pid", worker.pid},
                   {"state", describe(worker.state)},
                   {"started", worker.started},
                   {"ended", or_null(worker.ended)},
                   {"end", or_null(worker.end)},
                   {"unhealthy", or_null(worker.unhealthy)},
                   {"root_cause", round.is_root(worker)}});
    add_stats(out.back(), worker.stats);
  }
  return out;
}

std::set<std::string> names_of(const RoundStatus& round) {
  const std::vector<std::string> labels = node_labels(round);
  return {labels.begin(), labels.end()};
}

// Names that are in only the first set, up to the display limit.
Json only_in(const std::set<std::string>& one, const std::set<std::string>& other) {
  Json out = Json::array();
  for (const std::string& name : one) {
    if (!other.contains(name) && out.size() < kNamesShownMax) {
      out.push_back(name);
    }
  }
  return out;
}

Json rounds_json(const JobStatus& status) {
  Json out = Json::array();
  const std::size_t count = status.rounds.size();
  const std::size_t first = count > kRoundsShownMax ? count - kRoundsShownMax : 0;
  std::set<std::string> before;
  for (std::size_t i = first; i < count; ++i) {
    const RoundStatus& round = status.rounds[i];
    const std::set<std::string> now = names_of(round);
    out.push_back({{"round", round.number},
                   {"begun", round.begun},
                   {"ended", or_null(round.ended)},
                   {"world_size", round.world_size},
                   {"nodes", round.nodes.size()},
                   {"joined", i == first ? Json::array() : only_in(now, before)},
                   {"left", i == first ? Json::array() : only_in(before, now)},
                   {"why_ended", or_null(round.why_ended)}});
    before = now;
  }
  return out;
}

Json failures_json(const JobStatus& status) {
  Json out = Json::array();
  for (const FailureStatus& failure : status.failures) {
    out.push_back({{"time", failure.time},
                   {"round", failure.round},
                   {"node", failure.node},
                   {"rank", failure.rank < 0 ? Json() : Json(failure.rank)},
                   {"cause", failure.cause},
                   {"text", failure.text},
                   {"last_line", or_null(failure.last_line)}});
  }
  return out;
}

Json roll_call_json(const JobStatus& status) {
  if (!status.roll_call) {
    return {};
  }
  const RollCallStatus& call = *status.roll_call;
  return {{"present", call.present},
          {"needed", call.needed},
          {"nodes", call.nodes},
          {"awaited", call.awaited},
          {"refused", call.refused},
          {"trouble", or_null(call.trouble)}};
}

Json hang_json(const JobStatus& status) {
  if (!status.hang) {
    return {};
  }
  const HangStatus& hang = *status.hang;
  return {{"time", hang.time}, {"ranks", hang.ranks}, {"cause", hang.cause}, {"text", hang.text}};
}

Json straggler_json(const JobStatus& status) {
  if (!status.straggler) {
    return {};
  }
  const StragglerStatus& straggler = *status.straggler;
  return {{"time", straggler.time},
          {"ranks", straggler.ranks},
          {"nodes", straggler.nodes},
          {"share", straggler.share},
          {"text", straggler.text}};
}

void add_round(Json& json, const JobStatus& status) {
  const RoundStatus* round = status.round();
  json["round"] = round == nullptr ? Json() : Json(round->number);
  json["world_size"] = round == nullptr ? Json() : Json(round->world_size);
  json["group_rank"] = round == nullptr ? Json() : Json(round->group_rank);
  json["leader"] = status.leads();
  json["restarts"] = status.restarts;
  json["regroups"] = status.regroups;
  json["nodes_lost"] = status.nodes_lost;
  json["nodes_joined"] = status.nodes_joined;
  json["roll_call"] = roll_call_json(status);
  json["hang"] = hang_json(status);
  json["straggler"] = straggler_json(status);
  json["nodes"] = round == nullptr ? Json::array() : nodes_json(status, *round);
  json["workers"] = round == nullptr ? Json::array() : workers_json(*round);
  json["step_times"] = step_times_json(status.steps);
  json["rounds"] = rounds_json(status);
  json["failures"] = failures_json(status);
}

}  // namespace

std::string status_json(const JobStatus& status, double now) {
  Json json;
  json["v"] = kStatusVersion;
  json["time"] = now;
  json["job"] = or_null(status.job);
  json["program"] = or_null(status.program);
  json["version"] = or_null(status.version);
  json["node"] = or_null(status.node);
  json["launcher_pid"] = status.launcher_pid;
  json["agent_pid"] = status.agent_pid;
  json["http"] = or_null(status.http);
  json["logs"] = or_null(status.logs);
  json["max_restarts"] = status.max_restarts;
  json["started"] = or_null(status.started);
  json["phase"] = describe(status.phase);
  json["phase_since"] = or_null(status.phase_since);
  json["ready"] = status.ready();
  add_round(json, status);
  json["check"] = parse_json(status.check);
  json["account"] = account_json(spent_until(status, now));
  json["outcome"] = or_null(status.outcome);
  json["exit_code"] = status.phase == JobPhase::ended ? Json(status.exit_code) : Json();
  json["verdict"] = or_null(status.verdict);
  return without_hidden_marks(dump_json(json)) + "\n";
}

}  // namespace muster
