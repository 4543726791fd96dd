// SPDX-License-Identifier: Apache-2.0
#include "config/options/rdzv_conf.hpp"

#include "base/text.hpp"
#include "config/options/suggest.hpp"
#include "config/options/values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

namespace muster {
namespace {

using Conf = std::map<std::string, std::string>;

// torchrun passes these keys to its constructor by name, so setting them here is an error in
// torchrun too.
constexpr std::array<std::string_view, 6> kReserved{
    "backend", "endpoint", "run_id", "min_nodes", "max_nodes", "local_addr"};

constexpr double kLeaseMin = 0.2;         // seconds; on a busy machine, shorter leases would expire
constexpr double kSecondsMax = 1e9;       // practically infinite, but fits into a Duration
constexpr double kKeepAliveInterval = 5;  // seconds, as in torchrun
constexpr double kKeepAliveAttempts = 3;
constexpr std::chrono::seconds kJoinTimeoutOfStatic{900};

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(seconds, kSecondsMax)));
}

// Each check parses a value and returns the violated rule, or an empty string.
std::string check_number(const std::string& text, RdzvValue& out) {
  const auto value = parse_python_float(text);
  out.number = value.value_or(0);
  return value ? "" : "must be a number";
}

std::string check_positive(const std::string& text, RdzvValue& out) {
  const std::string rule = check_number(text, out);
  return rule.empty() && out.number <= 0 ? "must be a positive number of seconds" : rule;
}

std::string check_at_least(double least, const std::string& text, RdzvValue& out) {
  const std::string rule = check_number(text, out);
  return rule.empty() && out.number < least ? fmt::format("must be at least {} s", least) : rule;
}

std::string check_not_negative(const std::string& text, RdzvValue& out) {
  return check_at_least(0, text, out);
}

std::string check_lease(const std::string& text, RdzvValue& out) {
  return check_at_least(kLeaseMin, text, out);
}

std::string check_delay(const std::string& text, RdzvValue& out) {
  out.is_never = text == "never";
  return out.is_never ? "" : check_not_negative(text, out);
}

std::string check_attempts(const std::string& text, RdzvValue& out) {
  const auto value = parse_python_int(text);
  out.number = static_cast<double>(value.value_or(0));
  return out.number > 0 ? "" : "must be a positive whole number";
}

std::string check_flag(const std::string& text, RdzvValue& out) {
  static constexpr std::array<std::string_view, 5> kYes{"1", "true", "t", "yes", "y"};
  static constexpr std::array<std::string_view, 5> kNo{"0", "false", "f", "no", "n"};
  const std::string word = to_lower(text);
  out.is_yes = std::ranges::find(kYes, word) != kYes.end();
  return out.is_yes || std::ranges::find(kNo, word) != kNo.end() ? "" : "must be true or false";
}

std::string check_store_type(const std::string& text, RdzvValue&) {
  const std::string word = to_lower(trim(text));
  return word == "tcp" || word == "file" ? "" : "must be tcp or file";
}

template <auto Member>
void store_seconds(const RdzvValue& value, RendezvousConfig& out) {
  out.*Member = to_duration(value.number);
}

template <auto Member>
void store_flag(const RdzvValue& value, RendezvousConfig& out) {
  out.*Member = value.is_yes;
}

void store_delay(const RdzvValue& value, RendezvousConfig& out) {
  out.join_delay = value.is_never ? std::nullopt : std::optional(to_duration(value.number));
}

using Config = RendezvousConfig;

// In the order of RdzvKey's members.
// clang-format off
constexpr auto kKeys = std::to_array<RdzvKey>({
    {"join_timeout", "600", true, false, check_positive, store_seconds<&Config::join_timeout>,
     "How long to wait for MIN nodes before giving up"},
    {"timeout", "900", false, true, check_positive, store_seconds<&Config::join_timeout>,
     "How long to wait for all nodes before giving up"},
    {"last_call_timeout", "30", true, false, check_positive,
     store_seconds<&Config::last_call_timeout>,
     "Once MIN but fewer than MAX nodes have joined, how long to wait for more before the job "
     "starts"},
    {"lease", "9", true, true, check_lease, store_seconds<&Config::lease>,
     "A node that is silent for this long is considered lost; at least 0.2"},
    {"keep_alive_interval", "5", true, false, check_positive, nullptr,
     "For torchrun compatibility: the lease is this interval times keep_alive_max_attempt if "
     "either of them is set and lease is not"},
    {"keep_alive_max_attempt", "3", true, false, check_attempts, nullptr,
     "See keep_alive_interval"},
    {"join_delay", "0", true, true, check_delay, store_delay,
     "How long a running job collects new nodes before it regroups to admit them; with never, "
     "they wait until the job regroups for another reason"},
    {"cool_down", "1800", true, false, check_not_negative, store_seconds<&Config::cool_down>,
     "If the first failures of two rounds happen on one node within this time, a spare takes its "
     "place, and for this long the node is a last resort; 0: never"},
    {"is_host", "", true, false, check_flag, store_flag<&Config::is_host>,
     "If true, this node hosts the rendezvous; if false, it never does. By default the node that "
     "has the endpoint's address hosts the rendezvous"},
    {"allow_split_brain", "false", true, true, check_flag, store_flag<&Config::allow_split_brain>,
     "If true, after a network partition, continue even without a majority of the nodes. Both "
     "sides may then run and write the same files. Intended for two-node jobs that must not wait"},
    {"any_program", "false", true, true, check_flag, store_flag<&Config::any_program>,
     "If true, nodes may run different programs or pass different arguments. By default a node "
     "with a different command is rejected"},
    // As in torchrun, the values of these keys are validated, but have no effect.
    {"close_timeout", "", false, false, check_positive, nullptr,
     "muster notifies all nodes of the end of a job immediately, over open connections"},
    {"read_timeout", "", false, false, check_positive, nullptr,
     "the rendezvous reads no state from a store"},
    {"heartbeat_timeout", "", false, false, check_positive, nullptr,
     "lease determines when a node counts as lost"},
    {"cas_backoff_max_seconds", "", false, false, check_not_negative, nullptr,
     "the rendezvous writes no state to a store"},
    {"store_type", "", false, false, check_store_type, nullptr, "the rendezvous always uses TCP"},
});

// clang-format on

// True if the key's value is validated for this backend. As in torchrun, c10d also validates keys
// without effect.
bool is_checked(const RdzvKey& key, std::string_view backend) {
  return backend == "static" ? key.in_static : key.in_c10d || !key.in_static;
}

// torchrun's keep_alive keys define the lease, unless `lease` is set.
void apply_keep_alive(const Conf& conf, RendezvousConfig& out) {
  const auto value_of = [&](const char* key, double fallback) {
    const auto found = conf.find(key);
    return found == conf.end() ? fallback : parse_python_float(found->second).value_or(fallback);
  };
  const bool is_set =
      conf.contains("keep_alive_interval") || conf.contains("keep_alive_max_attempt");
  if (is_set && !conf.contains("lease")) {
    const double seconds_in_all = value_of("keep_alive_interval", kKeepAliveInterval) *
                                  value_of("keep_alive_max_attempt", kKeepAliveAttempts);
    out.lease = to_duration(std::max(seconds_in_all, kLeaseMin));
  }
}

}  // namespace

std::span<const RdzvKey> rdzv_keys() {
  return kKeys;
}

std::vector<std::string> keys_without_effect(const Conf& conf, std::string_view backend) {
  std::vector<std::string> out;
  for (const RdzvKey& key : kKeys) {
    const bool has_effect = backend == "static" ? key.in_static : key.in_c10d;
    if (!has_effect && conf.contains(std::string(key.name))) {
      out.emplace_back(key.name);
    }
  }
  return out;
}

std::vector<std::string> mistyped_keys(const Conf& conf) {
  std::vector<std::string_view> names;
  std::ranges::transform(kKeys, std::back_inserter(names), &RdzvKey::name);
  std::vector<std::string> warnings;
  for (const auto& [key, value] : conf) {
    const std::string_view meant = nearest_name(key, names);
    if (!meant.empty() && meant != key) {
      warnings.push_back(
          fmt::format("ignoring unknown key {} in --rdzv-conf; did you mean {}?", key, meant));
    }
  }
  return warnings;
}

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
      return failure(Errc::usage, fmt::format("'{}' cannot be set here; use its own option", key));
    }
    conf.insert_or_assign(key, value);
  }
  return conf;
}

Result<RendezvousConfig> read_rendezvous_config(const Conf& conf, std::string_view backend) {
  RendezvousConfig out;
  if (backend == "static") {
    out.join_timeout = kJoinTimeoutOfStatic;
  } else {
    apply_keep_alive(conf, out);
  }
  for (const RdzvKey& key : kKeys) {
    const auto typed = conf.find(std::string(key.name));
    if (typed == conf.end() || !is_checked(key, backend)) {
      continue;
    }
    RdzvValue value;
    if (const std::string rule = key.check(typed->second, value); !rule.empty()) {
      return failure(Errc::usage, fmt::format("{}={} {}", key.name, typed->second, rule));
    }
    if (key.store != nullptr) {
      key.store(value, out);
    }
  }
  if (const auto old = conf.find("risk_two_worlds"); old != conf.end()) {
    return failure(
        Errc::usage,
        fmt::format("risk_two_worlds={} was renamed: use allow_split_brain", old->second));
  }
  return out;
}

}  // namespace muster
