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

constexpr std::array<RdzvKey, 15> kKeys{{
    {.name = "join_timeout",
     .default_value = "600",
     .in_c10d = true,
     .help = "How long to wait for MIN nodes before giving up"},
    {.name = "timeout",
     .default_value = "900",
     .in_static = true,
     .help = "How long to wait for all nodes before giving up"},
    {.name = "last_call_timeout",
     .default_value = "30",
     .in_c10d = true,
     .help = "With MIN but fewer than MAX nodes: how long to wait for more before the job starts"},
    {.name = "lease",
     .default_value = "9",
     .in_c10d = true,
     .in_static = true,
     .help = "A node that is silent for this long is considered lost; at least 0.2"},
    {.name = "keep_alive_interval",
     .default_value = "5",
     .in_c10d = true,
     .help =
         "For torchrun compatibility: the lease is this interval times keep_alive_max_attempt if "
         "one of the two is set and lease is not"},
    {.name = "keep_alive_max_attempt",
     .default_value = "3",
     .in_c10d = true,
     .help = "See keep_alive_interval"},
    {.name = "join_delay",
     .default_value = "0",
     .in_c10d = true,
     .in_static = true,
     .help = "How long a running job collects new nodes before it regroups to admit them; never: "
             "they wait until the job regroups for another reason"},
    {.name = "is_host",
     .in_c10d = true,
     .help =
         "true: this node hosts the rendezvous; false: it never does. By default the node that has "
         "the endpoint's address hosts it"},
    {.name = "allow_split_brain",
     .default_value = "false",
     .in_c10d = true,
     .in_static = true,
     .help =
         "If true, after a network partition, continue even without a majority of the nodes. Both "
         "sides may then run and write the same files. Intended for two-node jobs that must "
         "not wait"},
    {.name = "any_program",
     .default_value = "false",
     .in_c10d = true,
     .in_static = true,
     .help = "If true, nodes may run different programs or pass different arguments. By default a "
             "node with a different command is rejected"},
    {.name = "close_timeout",
     .help = "muster notifies all nodes of the end of a job immediately, over open connections"},
    {.name = "read_timeout", .help = "the rendezvous reads no state from a store"},
    {.name = "heartbeat_timeout", .help = "lease defines when a node is lost"},
    {.name = "cas_backoff_max_seconds", .help = "the rendezvous writes no state to a store"},
    {.name = "store_type", .help = "the rendezvous always uses TCP"},
}};

constexpr double kLeaseMin = 0.2;         // seconds; on a busy machine, shorter leases would expire
constexpr double kSecondsMax = 1e9;       // practically infinite, but fits into a Duration
constexpr double kKeepAliveInterval = 5;  // seconds, as in torchrun
constexpr double kKeepAliveAttempts = 3;
constexpr std::chrono::seconds kJoinTimeoutOfStatic{900};

Duration to_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(seconds, kSecondsMax)));
}

// Reads keys one by one and keeps the first error. Missing keys are not errors.
class ConfReader {
 public:
  explicit ConfReader(const Conf& conf) : conf_(conf) {}

  [[nodiscard]] std::optional<std::string> text(std::string_view key) const {
    const auto found = conf_.find(std::string(key));
    return found == conf_.end() ? std::nullopt : std::optional(found->second);
  }

  // Seconds above 0.
  std::optional<double> positive(std::string_view key) {
    const auto value = number(key);
    return value && *value <= 0 ? refuse(key, "must be a positive number of seconds") : value;
  }

  std::optional<double> at_least(std::string_view key, double least) {
    const auto value = number(key);
    return value && *value < least ? refuse(key, fmt::format("must be at least {} s", least))
                                   : value;
  }

  std::optional<double> positive_integer(std::string_view key) {
    const auto typed = text(key);
    const auto value = parse_python_int(typed.value_or("1"));
    if (!value || *value <= 0) {
      return refuse(key, "must be a positive whole number");
    }
    return typed ? std::optional(static_cast<double>(*value)) : std::nullopt;
  }

  std::optional<bool> flag(std::string_view key) {
    static constexpr std::array<std::string_view, 5> kYes{"1", "true", "t", "yes", "y"};
    static constexpr std::array<std::string_view, 5> kNo{"0", "false", "f", "no", "n"};
    const auto typed = text(key);
    const std::string word = to_lower(typed.value_or("no"));
    const bool yes = std::ranges::find(kYes, word) != kYes.end();
    if (!yes && std::ranges::find(kNo, word) == kNo.end()) {
      refuse(key, "must be true or false");
    }
    return typed ? std::optional(yes) : std::nullopt;
  }

  // Checks that the key, if set, has one of two values. Case is ignored.
  void one_of(std::string_view key, std::string_view first, std::string_view second) {
    const std::string word = to_lower(trim(text(key).value_or(std::string(first))));
    if (word != first && word != second) {
      refuse(key, fmt::format("must be {} or {}", first, second));
    }
  }

  // Rejects a key that earlier versions used.
  void renamed(std::string_view old_key, std::string_view key) {
    if (text(old_key)) {
      refuse(old_key, fmt::format("was renamed: use {}", key));
    }
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  std::optional<double> number(std::string_view key) {
    const auto typed = text(key);
    const auto value = parse_python_float(typed.value_or("0"));
    if (!value) {
      return refuse(key, "must be a number");
    }
    return typed ? value : std::nullopt;
  }

  std::nullopt_t refuse(std::string_view key, std::string_view rule) {
    if (!error_) {
      error_ = Error{Errc::usage, fmt::format("{}={} {}", key, text(key).value_or(""), rule)};
    }
    return std::nullopt;
  }

  const Conf& conf_;
  std::optional<Error> error_;
};

void set(Duration& out, std::optional<double> seconds) {
  if (seconds) {
    out = to_duration(*seconds);
  }
}

void read_c10d(ConfReader& reader, RendezvousConfig& out) {
  set(out.join_timeout, reader.positive("join_timeout"));
  set(out.last_call_timeout, reader.positive("last_call_timeout"));
  const auto interval = reader.positive("keep_alive_interval");
  const auto attempts = reader.positive_integer("keep_alive_max_attempt");
  if (interval || attempts) {
    const double lease =
        interval.value_or(kKeepAliveInterval) * attempts.value_or(kKeepAliveAttempts);
    out.lease = to_duration(std::max(lease, kLeaseMin));
  }
  out.is_host = reader.flag("is_host");
  // Validated as in torchrun, but without effect. kKeys contains the reasons.
  reader.positive("close_timeout");
  reader.positive("read_timeout");
  reader.positive("heartbeat_timeout");
  reader.at_least("cas_backoff_max_seconds", 0);
  reader.one_of("store_type", "tcp", "file");
}

void read_own(ConfReader& reader, RendezvousConfig& out) {
  set(out.lease, reader.at_least("lease", kLeaseMin));
  if (reader.text("join_delay") == "never") {
    out.join_delay.reset();
  } else {
    set(*out.join_delay, reader.at_least("join_delay", 0));
  }
  reader.renamed("risk_two_worlds", "allow_split_brain");
  out.allow_split_brain = reader.flag("allow_split_brain").value_or(false);
  out.any_program = reader.flag("any_program").value_or(false);
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
  ConfReader reader(conf);
  RendezvousConfig out;
  if (backend == "static") {
    out.join_timeout = kJoinTimeoutOfStatic;
    set(out.join_timeout, reader.positive("timeout"));
  } else {
    read_c10d(reader, out);
  }
  read_own(reader, out);
  if (reader.error()) {
    return std::unexpected(*reader.error());
  }
  return out;
}

}  // namespace muster
