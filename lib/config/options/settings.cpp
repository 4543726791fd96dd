// SPDX-License-Identifier: Apache-2.0
#include "config/options/settings.hpp"

#include <array>

namespace muster {
namespace {

// A struct, so that `using enum` does not add the enumerators to the namespace.
struct OptionTable {
  using enum OptionId;
  using enum ValueKind;
  using enum HelpGroup;

  // In the order of Option's members.
  // clang-format off
  static constexpr auto kRows = std::to_array<Option>({
      {module, "module", 'm', flag, program, kTorchrun | kPet,
       "run PROGRAM as a Python module (python3 -u -m)"},
      {no_python, "no-python", 0, flag, program, kTorchrun | kPet,
       "run PROGRAM directly, even if it ends in .py"},
      {nproc_per_node, "nproc-per-node", 0, text, workers, kTorchrun | kPet,
       "local workers; auto: one per GPU, else per CPU", "N|auto|gpu|cpu", "1"},
      {role, "role", 0, text, workers, kTorchrun | kPet,
       "role name of the workers (ROLE_NAME)", "NAME", "default"},
      {virtual_local_rank, "virtual-local-rank", 0, flag, workers, kTorchrun | kPet,
       "each worker sees one GPU and gets LOCAL_RANK=0"},
      {devices, "devices", 0, text, workers, 0,
       "GPUs for the workers, by index or UUID", "N,..."},
      {ports, "ports", 0, integer, workers, kNoVariable,
       "reserve N ports per node (MUSTER_PORTS, ${port0})", "N", "0"},
      {leader_ports, "leader-ports", 0, integer, workers, kNoVariable,
       "N ports on rank 0's node (MUSTER_LEADER_PORTS)", "N", "0"},
      {env_for, "env-for", 0, choice, workers, kHidden,
       "set the variables that this framework reads; auto: those of JAX if PROGRAM imports jax",
       "FRAMEWORK", "auto", "", "auto|jax|none"},
      {stdin_rank, "stdin-rank", 0, text, workers, 0,
       "local rank that reads stdin [0 with one worker or a terminal, else none]", "N|none"},
      {warm, "warm", 0, text, workers, 0,
       "preload modules, then fork the workers", "MODULE,...", "off", "auto"},
      {local_rank_arg, "local-rank-arg", 0, text, workers, 0,
       "pass the local rank as --NAME=N", "NAME", "", "local_rank"},
      {max_restarts, "max-restarts", 0, integer, stopping, kTorchrun | kPet,
       "restart all workers after a failure, up to N times", "N", "0"},
      {restart, "restart", 0, choice, stopping, 0,
       "rank: replace only failed workers", "WHAT", "group", "", "group|rank"},
      {vault_memory, "vault-memory", 0, text, stopping, 0,
       "memory for records of replaced workers", "SIZE", "64M"},
      {spare_workers, "spare-workers", 0, integer, stopping, kHidden,
       "processes per node that have started the program, to replace failed workers", "N", "0"},
      {quick_failures, "quick-failures", 0, text, stopping, 0,
       "give up after N startup failures in a row", "N|off", "3"},
      {restart_delay, "restart-delay", 0, text, stopping, kHidden,
       "wait before all workers are restarted; auto: up to 60 s while there is no progress",
       "SECONDS|auto", "auto"},
      {on_verdict, "on-verdict", 0, choice, stopping, kHidden,
       "if a restart cannot help, report it, or stop the job", "WHAT", "report", "", "report|stop"},
      {no_restart_on, "no-restart-on", 0, text, stopping, kHidden,
       "exit codes after which the job does not restart, for example 3,64-78", "CODES"},
      {shutdown_timeout, "shutdown-timeout", 0, duration, stopping, kTorchrun | kPet,
       "time from SIGTERM to SIGKILL; 0: kill at once", "SECONDS", "30"},
      {signals_to_handle, "signals-to-handle", 0, text, stopping, kTorchrun | kPet,
       "signals to forward before muster stops the job", "NAMES", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {signal_delivery, "signal-delivery", 0, choice, stopping, 0,
       "group: workers get signals directly; leader: muster forwards them",
       "HOW", "auto", "", "auto|group|leader"},
      {hang_timeout, "hang-timeout", 0, text, stopping, 0,
       "report which rank stalls the job", "auto|SECONDS|off", "off"},
      {on_hang, "on-hang", 0, choice, stopping, 0,
       "report, restart, or stop (exit code 124)", "WHAT", "report", "", "report|restart|stop"},
      {on_child_death, "on-child-death", 0, choice, stopping, 0,
       "fail: a dying child fails its worker", "WHAT", "ignore", "", "ignore|fail"},
      {preempt_signal, "preempt-signal", 0, text, stopping, kHidden,
       "signal that announces a preemption", "NAME"},
      {preempt_file, "preempt-file", 0, text, stopping, kHidden,
       "path of a file that announces a preemption when it appears", "PATH"},
      {preempt_url, "preempt-url", 0, text, stopping, kHidden,
       "ask the metadata service of a cloud, or a URL, whether this machine will be preempted",
       "aws|azure|gcp|URL"},
      {preempt_scope, "preempt-scope", 0, choice, stopping, kHidden,
       "what a notice of preemption stops: the job, or only the node that receives the notice",
       "WHAT", "job", "", "job|node"},
      {on_preempt, "on-preempt", 0, choice, stopping, kHidden,
       "when the ranks of a preempted job have exited: exit with code 75, stay until muster is "
       "killed, or requeue the Slurm job",
       "WHAT", "exit", "", "exit|stay|requeue"},
      {check, "check", 0, choice, stopping, kHidden,
       "find bad nodes before the first round; require: without them", "WHAT", "off", "report",
       "off|report|require"},
      {log_dir, "log-dir", 0, text, output, kTorchrun | kPet,
       "directory for log files; /dev/null disables them", "DIR"},
      {redirects, "redirects", 'r', text, output, kTorchrun | kPet,
       "log to files: 1 stdout, 2 stderr, 3 both; per local rank: 0:3,1:2", "SPEC", "0"},
      {tee, "tee", 't', text, output, kTorchrun | kPet,
       "write to files and, with a prefix, to the console", "SPEC", "0"},
      {label, "label", 'l', flag, output, 0,
       "prefix each console line with its rank; no files"},
      {fold, "fold", 0, choice, output, 0,
       "show equal lines of several ranks once",
       "WHEN", "auto", "", "auto|on|off"},
      {local_ranks_filter, "local-ranks-filter", 0, text, output, kTorchrun | kPet,
       "show only these local ranks on the console", "N,..."},
      {console_ranks, "console-ranks", 0, text, output, kHidden,
       "show only these ranks of the job on the console", "N,N-M,..."},
      {log_line_prefix_template, "log-line-prefix-template", 0, text, output, kTorchrun | kPet,
       "prefix for --tee and --label, with ${role_name} ${local_rank} ${rank} ${pid} "
       "${hostname}; default: [${role_name}${local_rank}]:", "TEXT"},
      {duplicate_stdout_filters, "duplicate-stdout-filters", 0, text, output, kTorchrun | kPet,
       "copy tee'd lines that contain one of these to filtered_stdout.log", "TEXT,..."},
      {duplicate_stderr_filters, "duplicate-stderr-filters", 0, text, output, kTorchrun | kPet,
       "copy tee'd stderr lines to filtered_stderr.log", "TEXT,..."},
      {hosts, "hosts", 'H', text, nodes, 0,
       "launch on these hosts over ssh, N workers each", "HOST[:N],..."},
      {hostfile, "hostfile", 0, text, nodes, 0,
       "read hosts from FILE, one per line: HOST slots=N", "FILE"},
      {include, "include", 0, text, nodes, kHidden,
       "use only these hosts from --hosts, and only these GPUs on them", "HOST[:GPU,...]@..."},
      {exclude, "exclude", 0, text, nodes, kHidden,
       "use all hosts and GPUs in --hosts except these", "HOST[:GPU,...]@..."},
      {rsh, "rsh", 0, text, nodes, kHidden,
       "remote shell command for --hosts, with its options", "COMMAND", "ssh"},
      {rsh_muster, "rsh-muster", 0, text, nodes, kHidden,
       "path of muster on the hosts in --hosts, if different from here", "PATH"},
      {rsh_fanout, "rsh-fanout", 0, integer, nodes, kHidden,
       "above this many --hosts, launch through a tree (needs ssh between hosts)", "N", "32"},
      {hosts_timeout, "hosts-timeout", 0, text, nodes, kHidden,
       "retry unreachable hosts in --hosts for this long", "SECONDS", "30"},
      {export_variable, "export", 'x', text, nodes, kHidden,
       "with --hosts, export a variable, or all that match 'NAME*'; repeatable", "NAME[=VALUE]"},
      {standalone, "standalone", 0, flag, nodes, kTorchrun | kPet,
       "single node, any free port; default for one node"},
      {nnodes, "nnodes", 0, text, nodes, kTorchrun | kPet,
       "number of nodes; at least MIN to start and continue", "N|MIN:MAX", "1:1"},
      {node_rank, "node-rank", 0, integer, nodes, kTorchrun | kPet,
       "rank of this node [0; with c10d, by host name]", "N", "0"},
      {master_addr, "master-addr", 0, text, nodes, kTorchrun | kPet,
       "MASTER_ADDR with --rdzv-backend=static", "ADDRESS", "127.0.0.1"},
      {master_port, "master-port", 0, integer, nodes, kTorchrun | kPet,
       "MASTER_PORT with --rdzv-backend=static [any free]", "PORT"},
      {local_addr, "local-addr", 0, text, nodes, kTorchrun | kPet,
       "address at which other nodes reach this node", "ADDRESS"},
      {iface, "iface", 0, text, nodes, kPet,
       "network interface that provides --local-addr", "NAME"},
      {no_socket_ifname, "no-socket-ifname", 0, flag, nodes, 0,
       "do not set GLOO_, TP_ and NCCL_SOCKET_IFNAME"},
      {port_range, "port-range", 0, text, nodes, kPet,
       "listen only on ports in this range", "A-B"},
      {store_via, "store-via", 0, choice, nodes, 0,
       "access to the workers' store: direct, proxy or open",
       "HOW", "direct", "", "direct|proxy|open"},
      {rank_order, "rank-order", 0, text, nodes, kPet,
       "file with node names in rank order, one per line", "file:PATH"},
      {rdzv_backend, "rdzv-backend", 0, text, nodes, kTorchrun | kPet,
       "rendezvous backend", "static|c10d", "static"},
      {rdzv_endpoint, "rdzv-endpoint", 0, text, nodes, kTorchrun | kPet,
       "rendezvous address, and optional fallbacks", "HOST[:PORT],..."},
      {rdzv_id, "rdzv-id", 0, text, nodes, kTorchrun | kPet,
       "job ID", "ID", "none"},
      {rdzv_conf, "rdzv-conf", 0, text, nodes, kTorchrun | kPet,
       "e.g. join_timeout=600,lease=9; see muster(1)", "KEY=VALUE,..."},
      {token_file, "token-file", 0, text, nodes, 0,
       "file with the job's secret [MUNGE or ~/.config]", "FILE[,shared]"},
      {token, "token", 0, text, nodes, 0,
       "source of the secret; none: admit every node; require: fail without a secret",
       "auto|none|munge|require", "auto"},
      {state_dir, "state-dir", 0, text, nodes, 0,
       "directory for restart state [in $HOME]", "DIR|none"},
      {platform, "platform", 0, text, nodes, 0,
       "cluster platform to read environment variables from", "auto|none|NAME", "auto"},
      {srun, "srun", 0, flag, nodes, kHidden,
       "inside a Slurm allocation but outside srun: re-run this command under srun"},
      {explain, "explain", 0, action, looking, 0,
       "print changed or all settings, the processes or their environment; start nothing",
       "config|all|plan|env", "", "config", "config|all|plan|env"},
      {dry_run, "dry-run", 0, action, looking, 0,
       "same as --explain", "WHAT", "", "config", "config|all|plan|env"},
      {as_node, "as-node", 0, integer, looking, kHidden,
       "with --explain, show the settings of node I (0-based)", "I"},
      {on_event, "on-event", 0, text, looking, kHidden,
       "run this shell command when the job starts, fails, hangs, restarts or ends", "COMMAND"},
      {config, "config", 0, text, looking, 0,
       "read options from a TOML file: nproc-per-node = 4", "FILE"},
      {accelerate_config, "accelerate-config", 0, text, looking, 0,
       "read options from an 'accelerate config' file", "FILE"},
      {http, "http", 0, text, looking, 0,
       "serve a status page, metrics and events", "[ADDRESS:]PORT", "off"},
      {http_key, "http-key", 0, text, looking, 0,
       "access key for --http; default: a random key", "FILE|none"},
      {log_level, "log-level", 0, choice, looking, 0,
       "trace, debug, info, warning, error, off",
       "LEVEL", "warning", "", "trace|debug|info|warning|error|off"},
      {help, "help", 'h', action, looking, kTorchrun,
       "print this help"},
      {version, "version", 0, action, looking, 0,
       "print the version and build features"},
      {print_completion, "print-completion", 0, action, looking, kTorchrun,
       "print a completion script", "bash|zsh", "", "", "bash|zsh"},
      {print_man, "print-man", 0, action, looking, kHidden,
       "print the manual page"},
      {remote_agent, "remote-agent", 0, action, looking, kHidden,
       "internal: used by --hosts to start the agent through the remote shell"},
      {measure_node, "measure-node", 0, action, looking, kHidden,
       "internal: used by --check to measure this node"},
      {use_env, "use-env", 0, flag, program, kTorchrun,
       "do not pass --local_rank=N to the program"},
      {monitor_interval, "monitor-interval", 0, number, compatible, kTorchrun | kPet,
       "no effect: muster is event-driven and never polls", "SECONDS", "0.1"},
      {start_method, "start-method", 0, choice, compatible, kTorchrun | kPet,
       "no effect: each worker is a separate program",
       "NAME", "spawn", "", "spawn|fork|forkserver"},
      {run_path, "run-path", 0, flag, compatible, kTorchrun | kPet,
       "run PROGRAM as a Python script, even without .py"},
      {event_log_handler, "event-log-handler", 0, text, compatible, kTorchrun | kPet,
       "accepts only null; see --on-event", "NAME", "null"},
      {logs_specs, "logs-specs", 0, text, compatible, kTorchrun,
       "accepts only default; no Python plug-ins", "NAME"},
      {numa_binding, "numa-binding", 0, choice, workers, kTorchrun,
       "bind workers to CPUs and memory near GPUs",
       "POLICY", "none", "", "node|socket|exclusive|core-complex|none|auto"},
  });
  // clang-format on
};

constexpr const auto& kOptions = OptionTable::kRows;

// Rows must be in OptionId order because option(id) indexes the table.
constexpr bool in_order() {
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    if (static_cast<std::size_t>(kOptions[i].id) != i) {
      return false;
    }
  }
  return true;
}

static_assert(in_order());
static_assert(kOptions.size() == static_cast<std::size_t>(OptionId::numa_binding) + 1);

}  // namespace

std::span<const Option> all_options() {
  return kOptions;
}

const Option& option(OptionId id) {
  return kOptions[static_cast<std::size_t>(id)];
}

}  // namespace muster
