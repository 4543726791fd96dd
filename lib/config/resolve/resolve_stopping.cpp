// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"
#include "base/time.hpp"
#include "config/options/values.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

namespace muster {
namespace {

constexpr std::string_view kTimeoutVariable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
constexpr Duration kRestartDelayMax = std::chrono::hours(1);
constexpr Duration kRestartDelayGrowth = std::chrono::seconds(60);  // a delay that grows
constexpr int kSpareWorkersMax = 64;
constexpr std::int64_t kExitCodeMax = 255;
constexpr std::size_t kVaultMemoryMin = std::size_t{1} << 20U;

Result<void> resolve_restarts(const Resolution& r) {
  const auto restarts = r.layers.integer(OptionId::max_restarts);
  if (restarts < 0 || restarts > std::numeric_limits<int>::max()) {
    return r.layers.refuse(OptionId::max_restarts, "must be at least 0");
  }
  r.config().max_restarts = static_cast<int>(restarts);
  r.config().restart_by_rank = r.layers.text(OptionId::restart) == "rank";
  if (r.config().restart_by_rank && restarts == 0) {
    return r.layers.refuse(OptionId::restart,
                           "needs --max-restarts=N: each replacement counts as a restart");
  }
  return {};
}

Result<void> resolve_vault(const Resolution& r) {
  const auto bytes = parse_bytes(r.layers.text(OptionId::vault_memory));
  if (!bytes || *bytes < kVaultMemoryMin) {
    return r.layers.refuse(OptionId::vault_memory, "must be at least 1M, for example 256M or 1G");
  }
  r.config().vault_memory = *bytes;
  return {};
}

Result<void> resolve_spares(const Resolution& r) {
  const auto count = r.layers.integer(OptionId::spare_workers);
  if (count < 0 || count > kSpareWorkersMax) {
    return r.layers.refuse(OptionId::spare_workers,
                           fmt::format("must be from 0 to {}", kSpareWorkersMax));
  }
  if (count > 0 && !r.config().restart_by_rank) {
    return r.layers.refuse(OptionId::spare_workers,
                           "needs --restart=rank: a restart of all workers uses no spare workers");
  }
  if (count > 0 && r.layers.is_on(OptionId::virtual_local_rank)) {
    return r.layers.refuse(OptionId::spare_workers,
                           "cannot be used with --virtual-local-rank: a spare worker has no GPU");
  }
  r.config().spare_workers = static_cast<int>(count);
  return {};
}

Result<void> resolve_quick_failures(const Resolution& r) {
  const std::string text(trim(r.layers.text(OptionId::quick_failures)));
  const auto number = parse_int(text);
  if (text != "off" && (!number || *number < 1 || *number > std::numeric_limits<int>::max())) {
    return r.layers.refuse(OptionId::quick_failures, "must be at least 1, or off");
  }
  r.config().quick_failures = text == "off" ? 0 : static_cast<int>(*number);
  return {};
}

// The other nodes wait for this node for at most join_timeout.
Result<void> resolve_restart_delay(const Resolution& r) {
  const std::string text(trim(r.layers.text(OptionId::restart_delay)));
  const bool many = many_nodes(r.config());
  const Duration max = many ? r.config().rendezvous.join_timeout : kRestartDelayMax;
  r.config().restart_delay_longest = std::min(kRestartDelayGrowth, max / 2);
  if (text == "auto") {
    return {};
  }
  const auto delay = parse_duration(text);
  if (!delay || *delay >= max) {
    return r.layers.refuse(OptionId::restart_delay,
                           fmt::format("must be less than {}{}",
                                       describe(max),
                                       many ? ", the join_timeout of --rdzv-conf" : ""));
  }
  r.config().restart_delay = *delay;
  r.show(OptionId::restart_delay, describe(*delay));
  return {};
}

// Adds "3" or "64-78". False if the text is neither, or contains a number that is no exit code of a
// failed process.
bool add_codes(std::set<int>& codes, std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_int(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_int(text.substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first || *last > kExitCodeMax) {
    return false;
  }
  for (auto code = *first; code <= *last; ++code) {
    codes.insert(static_cast<int>(code));
  }
  return true;
}

Result<void> resolve_verdict(const Resolution& r) {
  r.config().stop_on_verdict = r.layers.text(OptionId::on_verdict) == "stop";
  const std::string text(trim(r.layers.text(OptionId::no_restart_on)));
  if (text.empty()) {
    return {};
  }
  for (const std::string& part : split(text, ',')) {
    if (!add_codes(r.config().no_restart_on, trim(part))) {
      return r.layers.refuse(OptionId::no_restart_on,
                             "must be a list of codes from 1 to 255, for example 3,64-78");
    }
  }
  return {};
}

void resolve_child_death(const Resolution& r) {
  const bool fails = r.layers.text(OptionId::on_child_death) == "fail";
  r.config().on_child_death = fails ? OnChildDeath::fail : OnChildDeath::ignore;
}

Result<void> resolve_hangs(const Resolution& r) {
  const std::string text(trim(r.layers.text(OptionId::hang_timeout)));
  LaunchConfig& config = r.config();
  const std::string& what = r.layers.text(OptionId::on_hang);
  config.on_hang = what == "stop"      ? OnHang::stop
                   : what == "restart" ? OnHang::restart
                                       : OnHang::report;
  if (text == "off" || text == "auto") {
    config.watch_hangs = text == "auto";
    return {};
  }
  const auto limit = parse_duration(text);
  if (!limit || *limit < std::chrono::seconds(1)) {
    return r.layers.refuse(OptionId::hang_timeout, "must be at least 1 second, auto or off");
  }
  config.watch_hangs = true;
  config.hang_timeout = *limit;
  r.show(OptionId::hang_timeout, describe(*limit));
  return {};
}

Result<void> resolve_timeout(const Resolution& r) {
  const auto inherited = r.environ.get(kTimeoutVariable);
  const bool from_variable =
      inherited && !inherited->empty() && !r.layers.is_given(OptionId::shutdown_timeout);
  const std::string text = from_variable ? *inherited : r.layers.text(OptionId::shutdown_timeout);
  const auto timeout = parse_duration(trim(text));
  if (!timeout) {
    return failure(
        Errc::usage,
        fmt::format(
            "{}={}: must be a time of at least 0 seconds", kTimeoutVariable, shell_quoted(text)));
  }
  r.config().shutdown_timeout = *timeout;
  r.show(OptionId::shutdown_timeout, describe(*timeout));
  if (from_variable) {
    r.set_origin(OptionId::shutdown_timeout, std::string(kTimeoutVariable));
  }
  return {};
}

Result<void> resolve_signals(const Resolution& r) {
  LaunchConfig& config = r.config();
  config.signals_to_handle_text = r.layers.text(OptionId::signals_to_handle);
  for (const std::string& name : split(config.signals_to_handle_text, ',')) {
    const auto number = signal_number(name);
    if (!number || *number == SIGCHLD) {
      r.warn(fmt::format("ignoring signal '{}' in --signals-to-handle: {}",
                         trim(name),
                         number ? "muster uses it internally" : "no such signal"));
      continue;
    }
    if (*number == SIGKILL || *number == SIGSTOP) {
      return r.layers.refuse(OptionId::signals_to_handle,
                             fmt::format("{} cannot be caught", trim(name)));
    }
    if (std::ranges::find(config.signals_to_handle, *number) == config.signals_to_handle.end()) {
      config.signals_to_handle.push_back(*number);
    }
  }
  return {};
}

// muster uses these signals itself, also to stop, or a process cannot catch them.
bool is_reserved(int signo) {
  constexpr int kSignalsInUse[] = {
      SIGKILL, SIGSTOP, SIGCHLD, SIGCONT, SIGTSTP, SIGWINCH, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  return std::ranges::find(kSignalsInUse, signo) != std::end(kSignalsInUse);
}

void resolve_check(const Resolution& r) {
  const std::string& what = r.layers.text(OptionId::check);
  r.config().check = what == "require"  ? NodeCheck::require
                     : what == "report" ? NodeCheck::report
                                        : NodeCheck::off;
}

bool is_notice_url(std::string_view text) {
  const bool is_cloud = text == "aws" || text == "azure" || text == "gcp";
  const bool is_url = text.starts_with("http://") || text.starts_with("https://");
  return is_cloud ||
         (is_url && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; }));
}

Result<void> resolve_preemption(const Resolution& r) {
  LaunchConfig& config = r.config();
  const std::string& what = r.layers.text(OptionId::on_preempt);
  config.on_preempt = what == "stay"      ? OnPreempt::stay
                      : what == "requeue" ? OnPreempt::requeue
                                          : OnPreempt::exit;
  config.preempt_file = r.layers.text(OptionId::preempt_file);
  config.preempt_scope =
      r.layers.text(OptionId::preempt_scope) == "node" ? PreemptScope::node : PreemptScope::job;
  config.preempt_url = r.layers.text(OptionId::preempt_url);
  if (!config.preempt_url.empty() && !is_notice_url(config.preempt_url)) {
    return r.layers.refuse(OptionId::preempt_url, "must be aws, azure, gcp, or a URL with http");
  }
  const std::string& name = r.layers.text(OptionId::preempt_signal);
  if (name.empty()) {
    return {};
  }
  config.preempt_signal = signal_number(name);
  if (!config.preempt_signal || is_reserved(*config.preempt_signal)) {
    return r.layers.refuse(OptionId::preempt_signal,
                           "must be a signal that muster does not use, for example USR1");
  }
  return {};
}

bool is_slurm_step(const PlatformPlan& plan) {
  return plan.name == "slurm" && plan.starter.empty();
}

void resolve_delivery(const Resolution& r) {
  const std::string& how = r.layers.text(OptionId::signal_delivery);
  const bool step = how == "auto" && is_slurm_step(r.config().platform);
  if (step) {
    r.config().signal_delivery = SignalDelivery::slurm_step;
    r.set_origin(OptionId::signal_delivery, r.config().platform.what);
    r.show(OptionId::signal_delivery, "group for signals from Slurm");
  } else if (how == "group") {
    r.config().signal_delivery = SignalDelivery::group;
  } else {
    r.show(OptionId::signal_delivery, "leader");
  }
  const auto& ends = r.config().platform.ends;
  const bool chosen = r.config().origins.at("shutdown-timeout") != "default";
  if (r.config().signal_delivery != SignalDelivery::leader && ends && !chosen) {
    r.config().job_ends = ends->value;
  }
}

}  // namespace

Result<void> resolve_stopping(const Resolution& r) {
  if (auto done = resolve_quick_failures(r); !done) {
    return done;
  }
  if (auto done = resolve_restarts(r); !done) {
    return done;
  }
  if (auto done = resolve_spares(r); !done) {
    return done;
  }
  if (auto done = resolve_restart_delay(r); !done) {
    return done;
  }
  if (auto done = resolve_verdict(r); !done) {
    return done;
  }
  if (auto done = resolve_vault(r); !done) {
    return done;
  }
  if (auto done = resolve_timeout(r); !done) {
    return done;
  }
  if (auto done = resolve_hangs(r); !done) {
    return done;
  }
  r.config().file_timers = r.environ.get("TORCHELASTIC_ENABLE_FILE_TIMER") == "1";
  r.config().serves_kineto =
      r.environ.get("KINETO_USE_DAEMON").has_value() && !r.environ.get("KINETO_IPC_SOCKET_DIR");
  resolve_child_death(r);
  resolve_delivery(r);
  resolve_check(r);
  if (auto done = resolve_preemption(r); !done) {
    return done;
  }
  return resolve_signals(r);
}

}  // namespace muster
