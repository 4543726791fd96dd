// SPDX-License-Identifier: Apache-2.0
#include "agent/error_file.hpp"

#include "agent/report.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cmath>

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

// The member of an object; null where there is none.
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

// Bytes that are no UTF-8 are replaced: a worker may print anything.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Json failure_json(const WorkerFailure& failure) {
  Json json;
  json["rank"] = failure.rank;
  json["local_rank"] = failure.local_rank;
  json["pid"] = failure.pid;
  json["attempt"] = failure.attempt;
  json["unix_time"] = failure.wall_seconds;
  json["end"] = describe_end(failure);
  if (failure.spawn_error) {
    json["started"] = false;
  } else {
    json["exit_code"] = failure.status.shell_code();
    json["signal"] = failure.status.signaled ? Json(signal_name(failure.status.value)) : Json();
  }
  json["out_of_memory"] = failure.out_of_memory;
  json["memory"] = failure.memory_words;
  json["message"] = failure.record ? failure.record->message : std::string();
  json["traceback"] = traceback_of(failure);
  json["stderr_tail"] = failure.stderr_tail;
  json["error_file"] = failure.error_file;
  return json;
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
  }
  return "unknown";
}

}  // namespace

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
  return dump(*json);
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
  return dump(Json{{"message", message}});
}

std::string report_json(const JobResult& result, const ReportSite& site) {
  Json json;
  json["outcome"] = outcome_name(result.outcome);
  json["exit_code"] = exit_code_of(result);
  json["program"] = site.program;
  json["node"] = site.node;
  json["workers"] = result.nproc;
  json["attempts"] = result.attempt + 1;
  json["max_restarts"] = result.max_restarts;
  json["verdict"] = result.verdict;
  if (result.outcome == Outcome::interrupted) {
    json["interruption"] = describe_interruption(result);
  }
  if (result.error) {
    json["error"] = result.error->message;
  }
  const auto root = root_cause(result.failures, result.stop_signal);
  json["root_cause"] = root ? failure_json(result.failures[*root]) : Json();
  json["other_failures"] = Json::array();
  for (const WorkerFailure* failure : other_failures(result)) {
    json["other_failures"].push_back(failure_json(*failure));
  }
  json["overdue_local_ranks"] = result.overdue;
  json["not_killed"] = Json::array();
  for (const Survivor& left : result.survivors) {
    json["not_killed"].push_back(
        {{"pid", left.pid}, {"state", std::string(1, left.state)}, {"command", left.command}});
  }
  return dump(json) + "\n";
}

}  // namespace muster
