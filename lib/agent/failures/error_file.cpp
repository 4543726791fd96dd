// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/error_file.hpp"

#include "agent/failures/report_json.hpp"
#include "base/json_dump.hpp"
#include "base/printable.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace muster {
namespace {

// Returns the member `name` of `object`; null if there is no such member.
const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto at = object.find(name);
  return at == object.end() ? nullptr : &*at;
}

std::string text_of(const Json* value) {
  const std::string* text = value == nullptr ? nullptr : value->get_ptr<const std::string*>();
  return text == nullptr ? std::string() : *text;
}

// torch writes the time as a decimal string, other tools as a number.
std::optional<double> seconds_of(const Json* value) {
  if (value == nullptr) {
    return std::nullopt;
  }
  double seconds = 0;
  if (value->is_number()) {
    seconds = value->get<double>();
  } else {
    const std::string text = text_of(value);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc{} || end != text.data() + text.size()) {
      return std::nullopt;
    }
  }
  if (!std::isfinite(seconds) || seconds <= 0) {
    return std::nullopt;
  }
  return seconds;
}

int int_of(const Json* value) {
  return value != nullptr && value->is_number_integer() ? value->get<int>() : 0;
}

bool is_true(const Json* value) {
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// Returns the end of a long text, from the start of a line. For a traceback, the result also
// contains the first line of the traceback, so that readers recognize it.
std::string last_bytes(const std::string& text) {
  if (text.size() <= kEvidenceTextBytesMax) {
    return text;
  }
  constexpr std::string_view kTracebackStart = "Traceback (most recent call last):\n";
  const std::string head(text.starts_with(kTracebackStart) ? kTracebackStart : "");
  const auto line = text.find('\n', text.size() - kEvidenceTextBytesMax);
  return head +
         text.substr(line == std::string::npos ? text.size() - kEvidenceTextBytesMax : line + 1);
}

std::optional<Json> parse(std::string_view text) {
  if (text.empty() || text.size() > kErrorFileBytesMax) {
    return std::nullopt;
  }
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return std::nullopt;
  }
  return json;
}

constexpr int kIndent = 2;
// Upper limit on the number of restarts, because another node may send any number.
constexpr int kRestartsMax = 1'000'000'000;

void add_failures(Json& json, const JobResult& result, const ReportSite& site) {
  const auto story = story_of(result, site);
  json["root_cause"] = Json();
  json["other_failures"] = Json::array();
  if (!story) {
    return;
  }
  json["root_cause"] = failure_json(story->root);
  json["root_cause"]["end"] = story->end;
  json["root_cause"]["node"] = story->node;
  if (!result.close) {
    for (const WorkerFailure* failure : other_failures(result)) {
      json["other_failures"].push_back(failure_json(*failure));
    }
    return;
  }
  for (const OtherFailure& other : story->others) {
    json["other_failures"].push_back(
        {{"rank", other.rank}, {"node", other.node}, {"end", other.text}});
  }
  json["other_failures_count"] = story->others.size() + story->others_unnamed;
}

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::succeeded:
      return "succeeded";
    case Outcome::failed:
      return "failed";
    case Outcome::interrupted:
      return "interrupted";
    case Outcome::not_started:
      return "not_started";
    case Outcome::orphaned:
      return "orphaned";
    case Outcome::replaced:
      return "replaced";
  }
  return "unknown";
}

// Identifies the worker and the time of the failure.
void add_identity(Json& json, const WorkerFailure& failure) {
  json["rank"] = failure.rank;
  json["local_rank"] = failure.local_rank;
  json["pid"] = failure.pid;
  json["attempt"] = failure.attempt;
  json["unix_time"] = failure.wall_seconds;
}

Json judgement_json(const std::optional<Judgement>& judgement) {
  if (!judgement) {
    return {};
  }
  return {{"advice", name_of(judgement->advice)},
          {"cause", name_of(judgement->cause)},
          {"text", judgement->text}};
}

std::optional<Judgement> judgement_of(const Json* json) {
  if (json == nullptr || !json->is_object()) {
    return std::nullopt;
  }
  Judgement judgement;
  judgement.advice = advice_named(text_of(member(*json, "advice")));
  judgement.cause = cause_named(text_of(member(*json, "cause")));
  judgement.text = text_of(member(*json, "text"));
  return judgement;
}

}  // namespace

Json failure_json(const WorkerFailure& failure) {
  Json json;
  add_identity(json, failure);
  json["end"] = describe_end(failure);
  if (failure.spawn_error) {
    json["started"] = false;
  } else {
    json["exit_code"] = failure.status.shell_code();
    json["signal"] = failure.status.signaled ? Json(signal_name(failure.status.value)) : Json();
  }
  json["out_of_memory"] = failure.out_of_memory;
  json["memory"] = failure.memory_usage;
  json["message"] = failure.record ? failure.record->message : std::string();
  json["traceback"] = traceback_of(failure);
  json["stderr_tail"] = failure.stderr_tail;
  json["error_file"] = failure.error_file;
  json["step"] = failure.step ? Json(*failure.step) : Json();
  json["judgement"] = judgement_json(failure.judgement);
  return json;
}

std::optional<ErrorRecord> parse_error_file(std::string_view text) {
  const auto json = parse(text);
  if (!json) {
    return std::nullopt;
  }
  const Json* message = member(*json, "message");
  ErrorRecord record;
  if (message != nullptr && message->is_string()) {
    record.message = text_of(message);
    record.unix_seconds = seconds_of(member(*json, "timestamp"));
  } else if (message != nullptr && message->is_object()) {
    record.message = text_of(member(*message, "message"));
    if (const Json* extra = member(*message, "extraInfo")) {
      record.traceback = text_of(member(*extra, "py_callstack"));
      record.unix_seconds = seconds_of(member(*extra, "timestamp"));
    }
  }
  if (record.message.empty() && record.traceback.empty()) {
    return std::nullopt;
  }
  return record;
}

std::string with_error_code(std::string_view text, int code) {
  auto json = parse(text);
  if (!json || code == 0 || member(*json, "message") == nullptr ||
      !(*json)["message"].is_object()) {
    return std::string(text);
  }
  (*json)["message"]["errorCode"] = code;
  return dump_json(*std::move(json), kIndent);
}

std::string make_error_file(const WorkerFailure& failure, const std::string& traceback) {
  Json message;
  message["message"] = fmt::format("rank {} {}", failure.rank, describe_end(failure));
  message["extraInfo"]["py_callstack"] = traceback;
  message["extraInfo"]["timestamp"] =
      fmt::format("{}", static_cast<long long>(failure.wall_seconds));
  if (!failure.spawn_error) {
    message["errorCode"] = failure.status.torchrun_code();
  }
  return dump_json(Json{{"message", message}}, kIndent);
}

// -- evidence for the other nodes ---------------------------------------------------------------

std::string story_text(const FailureStory& story) {
  const WorkerFailure& failure = story.root;
  Json json;
  json["program"] = story.program;
  json["logs"] = story.logs;
  json["restarts"] = story.attempt - 1;
  add_identity(json, failure);
  json["signaled"] = failure.status.signaled;
  json["value"] = failure.status.value;
  json["out_of_memory"] = failure.out_of_memory;
  json["memory"] = failure.memory_usage;
  json["lost_child"] = failure.lost_child;
  json["spawn_error"] = failure.spawn_error ? Json(failure.spawn_error->message) : Json();
  json["stderr_tail"] = last_bytes(failure.stderr_tail);
  json["python"] = failure.python;
  json["judgement"] = judgement_json(failure.judgement);
  json["no_restart"] = failure.no_restart;
  json["message"] =
      failure.record ? Json(failure.record->message.substr(0, kEvidenceTextBytesMax)) : Json();
  json["traceback"] = failure.record ? last_bytes(failure.record->traceback) : std::string();
  return dump_json(std::move(json));
}

std::optional<FailureStory> parse_story(std::string_view text) {
  const auto json = parse(text);
  if (!json || member(*json, "rank") == nullptr) {
    return std::nullopt;
  }
  FailureStory story;
  story.program = text_of(member(*json, "program"));
  story.logs = text_of(member(*json, "logs"));
  story.attempt = std::clamp(int_of(member(*json, "restarts")), 0, kRestartsMax) + 1;
  WorkerFailure& failure = story.root;
  failure.rank = int_of(member(*json, "rank"));
  failure.local_rank = int_of(member(*json, "local_rank"));
  failure.pid = int_of(member(*json, "pid"));
  failure.attempt = int_of(member(*json, "attempt"));
  failure.wall_seconds = seconds_of(member(*json, "unix_time")).value_or(0);
  failure.status = ExitStatus{is_true(member(*json, "signaled")), int_of(member(*json, "value"))};
  failure.out_of_memory = is_true(member(*json, "out_of_memory"));
  failure.memory_usage = text_of(member(*json, "memory"));
  failure.lost_child = text_of(member(*json, "lost_child"));
  if (auto why = text_of(member(*json, "spawn_error")); !why.empty()) {
    failure.spawn_error = Error{Errc::system, std::move(why)};
  }
  failure.stderr_tail = text_of(member(*json, "stderr_tail"));
  failure.python = text_of(member(*json, "python"));
  failure.judgement = judgement_of(member(*json, "judgement"));
  failure.no_restart = is_true(member(*json, "no_restart"));
  const std::string message = text_of(member(*json, "message"));
  const std::string traceback = text_of(member(*json, "traceback"));
  if (!message.empty() || !traceback.empty()) {
    failure.record = ErrorRecord{message, traceback, std::nullopt};
  }
  return story;
}

// -- the whole report ---------------------------------------------------------------------------

namespace {

void add_leftovers(Json& json, const JobResult& result) {
  json["overdue_local_ranks"] = result.overdue;
  json["not_killed"] = Json::array();
  for (const Survivor& left : result.survivors) {
    json["not_killed"].push_back(
        {{"pid", left.pid}, {"state", std::string(1, left.state)}, {"command", left.command}});
  }
}

void add_outcome(Json& json, const JobResult& result) {
  json["workers"] = result.nproc;
  json["attempts"] = result.attempt + 1;
  json["max_restarts"] = result.max_restarts;
  json["verdict"] = result.close ? result.close->reason : result.verdict;
  if (result.outcome == Outcome::interrupted && result.interrupting_signal != 0) {
    json["interruption"] = describe_interruption(result);
  }
  if (result.preemption) {
    Json saved = Json::object();
    for (const auto& [rank, step] : result.preemption->saved) {
      saved[std::to_string(rank)] = step;
    }
    json["preemption"] = {
        {"why", result.preemption->why},
        {"step", result.preemption->step ? Json(*result.preemption->step) : Json()},
        {"saved", std::move(saved)}};
  }
  for (const SuspectedNode& suspect : result.suspects) {
    json["suspected_nodes"].push_back({{"node", suspect.node},
                                       {"cause", suspect.cause},
                                       {"replaced", suspect.is_replaced},
                                       {"text", suspect.text}});
  }
  if (result.error) {
    json["error"] = result.error->message;
  }
}

void add_failed_ranks(Json& json, const JobResult& result) {
  const auto root = root_cause(result.failures, result.stop_signal);
  json["root_rank"] = root ? Json(result.failures[*root].rank) : Json();
  json["other_ranks"] = Json::array();
  for (const WorkerFailure* failure : other_failures(result)) {
    json["other_ranks"].push_back(failure->rank);
  }
}

}  // namespace

Json end_json(const JobResult& result) {
  Json json;
  json["outcome"] = outcome_name(result.outcome);
  json["exit_code"] = exit_code_of(result);
  add_outcome(json, result);
  if (result.close) {
    add_failures(json, result, ReportSite{});
  } else {
    add_failed_ranks(json, result);
  }
  add_leftovers(json, result);
  return json;
}

std::string report_json(const JobResult& result, const ReportSite& site) {
  Json json;
  json["outcome"] = outcome_name(result.outcome);
  json["exit_code"] = exit_code_of(result);
  json["program"] = site.program;
  json["node"] = site.node;
  add_outcome(json, result);
  add_failures(json, result, site);
  add_leftovers(json, result);
  if (const Json more = Json::parse(site.fields, nullptr, false); more.is_object()) {
    json.update(more);
  }
  return without_hidden_marks(dump_json(std::move(json), kIndent)) + "\n";
}

}  // namespace muster
