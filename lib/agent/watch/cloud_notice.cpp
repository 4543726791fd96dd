// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/cloud_notice.hpp"

#include "base/printable.hpp"
#include "base/text.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <ctime>

namespace muster {
namespace {

using Json = nlohmann::json;

// All three clouds answer at this link-local address.
constexpr std::string_view kMetadataHost = "http://169.254.169.254";
constexpr std::size_t kAnswerShownMax = 80;

constexpr int kFound = 200;
constexpr int kUnauthorized = 401;
constexpr int kNotFound = 404;

// A line of curl's configuration file.
std::string option(std::string_view name, std::string_view value) {
  std::string quoted;
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
    }
    quoted += c;
  }
  return fmt::format("{} = \"{}\"\n", name, quoted);
}

std::string ask(std::string_view path, std::string_view header) {
  return option("url", fmt::format("{}{}", kMetadataHost, path)) + option("header", header) +
         option("noproxy", "*");
}

std::string lines_about(const CloudAnswer& answer) {
  if (answer.status == 0) {
    return "there is no answer";
  }
  return fmt::format("the answer has status {} ({})",
                     answer.status,
                     printable(std::string(trim(answer.body)), kAnswerShownMax));
}

CloudVerdict problem_of(const CloudAnswer& answer) {
  return {.problem = lines_about(answer)};
}

// {"action": "terminate", "time": "2026-11-30T08:22:00Z"}, or status 404.
CloudVerdict judge_aws(const CloudAnswer& answer) {
  if (answer.status == kNotFound) {
    return {};
  }
  const Json json = Json::parse(answer.body, nullptr, false);
  if (answer.status != kFound || !json.is_object()) {
    return problem_of(answer);
  }
  const auto time = json.find("time");
  return {.is_preempted = true,
          .unix_time = time != json.end() && time->is_string()
                           ? parse_cloud_time(time->get<std::string>())
                           : std::nullopt};
}

bool is_about(const Json& event, const std::string& machine) {
  const auto resources = event.find("Resources");
  return resources != event.end() && resources->is_array() &&
         std::ranges::find(*resources, Json(machine)) != resources->end();
}

// {"Events": [{"EventType": "Preempt", "Resources": ["vm"], "NotBefore": "Mon, 30 Nov 2026 …"}]}
CloudVerdict judge_azure(const CloudAnswer& answer, const std::string& machine) {
  const Json json = Json::parse(answer.body, nullptr, false);
  if (answer.status != kFound || !json.is_object() || !json.contains("Events") ||
      !json["Events"].is_array()) {
    return problem_of(answer);
  }
  for (const Json& event : json["Events"]) {
    if (event.is_object() && event.value("EventType", Json()) == "Preempt" &&
        is_about(event, machine)) {
      const Json time = event.value("NotBefore", Json());
      return {
          .is_preempted = true,
          .unix_time = time.is_string() ? parse_cloud_time(time.get<std::string>()) : std::nullopt};
    }
  }
  return {};
}

// A body that is empty, FALSE or NONE means no; any other body means yes.
CloudVerdict judge_word(const CloudAnswer& answer) {
  if (answer.status == kNotFound) {
    return {};
  }
  if (answer.status != kFound) {
    return problem_of(answer);
  }
  const std::string word = to_lower(trim(answer.body));
  return {.is_preempted = !word.empty() && word != "false" && word != "none"};
}

}  // namespace

bool CloudNotice::is_ready() const {
  return (source_ != "aws" && source_ != "azure") || !key_.empty();
}

std::string CloudNotice::request() const {
  if (source_ == "aws") {
    return is_ready()
               ? ask("/latest/meta-data/spot/instance-action", "X-aws-ec2-metadata-token: " + key_)
               : ask("/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600") +
                     option("request", "PUT");
  }
  if (source_ == "azure") {
    return ask(is_ready() ? "/metadata/scheduledevents?api-version=2020-07-01"
                          : "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
               "Metadata: true");
  }
  if (source_ == "gcp") {
    return ask("/computeMetadata/v1/instance/preempted", "Metadata-Flavor: Google");
  }
  return option("url", source_);
}

CloudVerdict CloudNotice::take(const CloudAnswer& answer) {
  return is_ready() ? judge(answer) : prepare(answer);
}

CloudVerdict CloudNotice::prepare(const CloudAnswer& answer) {
  const std::string key(trim(answer.body));
  const bool is_one_line = std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
  if (answer.status != kFound || key.empty() || !is_one_line) {
    return problem_of(answer);
  }
  key_ = key;
  return {};
}

CloudVerdict CloudNotice::judge(const CloudAnswer& answer) {
  if (source_ == "aws") {
    if (answer.status == kUnauthorized) {
      key_.clear();  // the token has expired
      return {};
    }
    return judge_aws(answer);
  }
  return source_ == "azure" ? judge_azure(answer, key_) : judge_word(answer);
}

std::optional<std::int64_t> parse_cloud_time(std::string_view text) {
  const std::string copy(text);
  for (const char* const format : {"%Y-%m-%dT%H:%M:%SZ", "%a, %d %b %Y %H:%M:%S GMT"}) {
    std::tm parts{};
    const char* const end = ::strptime(copy.c_str(), format, &parts);
    if (end != nullptr && *end == '\0') {
      return ::timegm(&parts);
    }
  }
  return std::nullopt;
}

}  // namespace muster
