// SPDX-License-Identifier: Apache-2.0
// THE OPTION TABLE: one row per option. Parsing, environment variables, --help, the manual page,
// completions, --explain and the README test are all derived from it. An option exists if and only
// if it has a row. Read-only data, compiled into the program.
#pragma once

#include "config/launch_config.hpp"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster {

// In table order.
enum class OptionId {
  module,
  no_python,
  nproc_per_node,
  role,
  virtual_local_rank,
  devices,
  ports,
  leader_ports,
  env_for,
  stdin_rank,
  warm,
  local_rank_arg,
  max_restarts,
  restart,
  vault_memory,
  spare_workers,
  quick_failures,
  restart_delay,
  on_verdict,
  no_restart_on,
  shutdown_timeout,
  signals_to_handle,
  signal_delivery,
  hang_timeout,
  on_hang,
  on_child_death,
  preempt_signal,
  preempt_file,
  preempt_url,
  preempt_scope,
  on_preempt,
  check,
  log_dir,
  redirects,
  tee,
  label,
  fold,
  local_ranks_filter,
  console_ranks,
  log_line_prefix_template,
  duplicate_stdout_filters,
  duplicate_stderr_filters,
  hosts,
  hostfile,
  include,
  exclude,
  rsh,
  rsh_muster,
  rsh_fanout,
  hosts_timeout,
  export_variable,
  standalone,
  nnodes,
  node_rank,
  master_addr,
  master_port,
  local_addr,
  iface,
  no_socket_ifname,
  port_range,
  store_via,
  rank_order,
  rdzv_backend,
  rdzv_endpoint,
  rdzv_id,
  rdzv_conf,
  token_file,
  token,
  state_dir,
  node_history,
  platform,
  srun,
  explain,
  dry_run,
  as_node,
  debug,
  on_event,
  config,
  accelerate_config,
  http,
  http_key,
  log_level,
  help,
  version,
  print_completion,
  print_man,
  remote_agent,
  measure_node,
  use_env,
  monitor_interval,
  start_method,
  run_path,
  event_log_handler,
  logs_specs,
  numa_binding,
};

enum class ValueKind {
  flag,  // takes no value on the command line; 0 or 1 in a variable
  text,
  integer,   // as parsed by Python's int()
  number,    // as parsed by Python's float()
  duration,  // seconds, or a number with a unit
  choice,    // one of `choices`
  action,    // performed immediately, like --help; has no variable and no config file entry
};

enum class HelpGroup { program, workers, stopping, output, nodes, looking, compatible };

// In the order used by --help and the manual page.
inline constexpr std::array kHelpGroups{HelpGroup::program,
                                        HelpGroup::workers,
                                        HelpGroup::stopping,
                                        HelpGroup::output,
                                        HelpGroup::nodes,
                                        HelpGroup::looking,
                                        HelpGroup::compatible};

// Bits of Option::traits.
inline constexpr unsigned kTorchrun = 1;    // torchrun 2.15 has this option
inline constexpr unsigned kPet = 2;         // PET_<NAME> is read
inline constexpr unsigned kNoVariable = 4;  // MUSTER_<NAME> is not read; muster sets it for workers
inline constexpr unsigned kHidden = 8;  // only in the manual page, not in --help and completions

struct Option {
  OptionId id;
  std::string_view name;  // without leading dashes: "nproc-per-node"
  char letter;            // 'm' for -m; 0 if none
  ValueKind kind;
  HelpGroup group;
  unsigned traits;
  std::string_view help;             // one sentence without a full stop
  std::string_view value_name{};     // for help: "N|auto|gpu|cpu"; empty for flags
  std::string_view default_value{};  // as typed on a command line
  std::string_view bare_value{};     // used if the option has no value; a value then needs '='
  std::string_view choices{};        // "a|b" for kind choice and some actions

  [[nodiscard]] bool has(unsigned trait) const { return (traits & trait) != 0; }
};

[[nodiscard]] std::span<const Option> all_options();
[[nodiscard]] const Option& option(OptionId id);

// The option with exactly this long name; '-' and '_' are equivalent. Null if none matches.
[[nodiscard]] const Option* find_option(std::string_view name);
[[nodiscard]] const Option* find_letter(char letter);

// False only for --use-env when not invoked as torch.distributed.launch.
[[nodiscard]] bool is_offered(const Option& row, Personality personality);

// "MUSTER_NNODES", "PET_NNODES"; empty if the option has no such variable.
[[nodiscard]] std::string muster_variable(const Option& row);
[[nodiscard]] std::string pet_variable(const Option& row);

// "--nproc-per-node"
[[nodiscard]] std::string long_flag(const Option& row);

// The heading of a group in --help: "What to run".
[[nodiscard]] std::string_view heading(HelpGroup group);

}  // namespace muster
