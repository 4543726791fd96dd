// SPDX-License-Identifier: Apache-2.0
#include "judgement/case_file.hpp"

#include "agent/failures/error_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace muster {
namespace {

using nlohmann::json;

const std::set<std::string> kVerdicts{"restart", "stop", "bad_node", "requeue"};

std::string stderr_of(const json& failure) {
  const json& text = failure.at("stderr");
  if (text.is_string()) {
    return text.get<std::string>();
  }
  std::string out;  // a list of lines
  for (const json& line : text) {
    out += line.get<std::string>() + "\n";
  }
  return out;
}

WorkerFailure failure_from(const json& in) {
  WorkerFailure out;
  out.rank = in.at("rank").get<int>();
  out.attempt = in.at("round").get<int>();
  if (in.contains("signal") && in.at("signal").is_string()) {
    out.status = ExitStatus{true, signal_number(in.at("signal").get<std::string>())};
  } else {
    out.status = ExitStatus{false, in.at("exit_code").get<int>()};
  }
  out.run_time = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(in.at("seconds").get<double>()));
  if (in.contains("step") && !in.at("step").is_null()) {
    out.step = in.at("step").get<std::uint64_t>();
  }
  out.stderr_tail = stderr_of(in);
  if (in.contains("error_file") && !in.at("error_file").is_null()) {
    out.record = parse_error_file(in.at("error_file").dump());
  }
  return out;
}

FailureCase case_from(const json& in) {
  FailureCase out;
  out.name = in.at("name").get<std::string>();
  out.world_size = in.at("world_size").get<int>();
  std::map<int, std::vector<WorkerFailure>> rounds;
  for (const json& each : in.at("failures")) {
    WorkerFailure failure = failure_from(each);
    auto& round = rounds[failure.attempt];
    const bool is_first = each.value("first", false);
    round.insert(is_first ? round.begin() : round.end(), std::move(failure));
  }
  for (auto& [number, failures] : rounds) {
    out.rounds.push_back(std::move(failures));
  }
  if (in.contains("kernel_log")) {
    out.kernel_log = in.at("kernel_log").get<std::vector<std::string>>();
  }
  out.verdict = in.at("verdict").get<std::string>();
  out.cause = in.at("cause").get<std::string>();
  return out;
}

}  // namespace

Result<FailureCase> read_case(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const json in = json::parse(text.str(), nullptr, false);
  if (in.is_discarded()) {
    return std::unexpected(Error{Errc::usage, path + ": not JSON"});
  }
  try {
    FailureCase out = case_from(in);
    if (!kVerdicts.contains(out.verdict)) {
      return std::unexpected(Error{Errc::usage, path + ": unknown verdict: " + out.verdict});
    }
    return out;
  } catch (const json::exception& error) {
    return std::unexpected(Error{Errc::usage, path + ": " + error.what()});
  }
}

}  // namespace muster
