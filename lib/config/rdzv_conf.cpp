// SPDX-License-Identifier: Apache-2.0
#include "config/rdzv_conf.hpp"

#include "base/text.hpp"
#include "config/values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace muster {
namespace {

using Conf = std::map<std::string, std::string>;

// Given to torchrun's constructor by name already, so that a second one is an error there too.
constexpr std::array<std::string_view, 6> kReserved{
    "backend", "endpoint", "run_id", "min_nodes", "max_nodes", "local_addr"};

constexpr std::array<std::string_view, 6> kSecondsOfC10d{"join_timeout",
                                                         "last_call_timeout",
                                                         "close_timeout",
                                                         "heartbeat_timeout",
                                                         "keep_alive_interval",
                                                         "read_timeout"};

Result<void> check_positive(const Conf& conf, std::string_view key) {
  const auto found = conf.find(std::string(key));
  if (found == conf.end()) {
    return {};
  }
  const auto number = parse_python_int(found->second);
  if (!number || *number <= 0) {
    return failure(Errc::usage,
                   fmt::format("{}={} must be a positive whole number", key, found->second));
  }
  return {};
}

Result<void> check_backoff(const Conf& conf) {
  const auto found = conf.find("cas_backoff_max_seconds");
  if (found == conf.end()) {
    return {};
  }
  const auto number = parse_python_float(found->second);
  if (!number || *number < 0) {
    return failure(
        Errc::usage,
        fmt::format("cas_backoff_max_seconds={} must be a number of at least 0", found->second));
  }
  return {};
}

Result<void> check_is_host(const Conf& conf) {
  static constexpr std::array<std::string_view, 10> kWords{
      "1", "true", "t", "yes", "y", "0", "false", "f", "no", "n"};
  const auto found = conf.find("is_host");
  if (found != conf.end() && std::ranges::find(kWords, to_lower(found->second)) == kWords.end()) {
    return failure(Errc::usage, fmt::format("is_host={} must be true or false", found->second));
  }
  return {};
}

Result<void> check_store_type(const Conf& conf) {
  const auto found = conf.find("store_type");
  if (found == conf.end()) {
    return {};
  }
  const std::string type = to_lower(trim(found->second));
  if (type != "tcp" && type != "file") {
    return failure(Errc::usage, fmt::format("store_type={} must be tcp or file", found->second));
  }
  return {};
}

}  // namespace

Result<Conf> parse_rdzv_conf(std::string_view text) {
  Conf conf;
  text = trim(text);
  if (text.empty()) {
    return conf;
  }
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.find('=');
    const std::string key(trim(std::string_view(part).substr(0, equals)));
    const std::string value(
        equals == std::string::npos ? "" : trim(std::string_view(part).substr(equals + 1)));
    if (key.empty()) {
      return failure(Errc::usage,
                     fmt::format("'{}' must be in the form KEY=VALUE,...,KEY=VALUE", text));
    }
    if (value.empty()) {
      return failure(Errc::usage, fmt::format("'{}' must have a value", key));
    }
    if (std::ranges::find(kReserved, key) != kReserved.end()) {
      return failure(Errc::usage,
                     fmt::format("'{}' cannot be set here; it has an option of its own", key));
    }
    conf.insert_or_assign(key, value);
  }
  return conf;
}

Result<void> check_rdzv_conf(const Conf& conf, std::string_view backend) {
  if (backend == "static") {
    return check_positive(conf, "timeout");
  }
  for (const std::string_view key : kSecondsOfC10d) {
    if (auto checked = check_positive(conf, key); !checked) {
      return checked;
    }
  }
  if (auto checked = check_positive(conf, "keep_alive_max_attempt"); !checked) {
    return checked;
  }
  if (auto checked = check_backoff(conf); !checked) {
    return checked;
  }
  if (auto checked = check_is_host(conf); !checked) {
    return checked;
  }
  return check_store_type(conf);
}

}  // namespace muster
