// SPDX-License-Identifier: Apache-2.0
// LaunchConfig: all settings, resolved and checked, and the origin of each. Created once by
// resolve(). plan/ and agent/ only read it. Value type.
#pragma once

#include "base/cpu_set.hpp"
#include "base/endpoint.hpp"
#include "base/log_level.hpp"
#include "base/time.hpp"
#include "config/launch_choices.hpp"
#include "config/rendezvous_config.hpp"
#include "config/std_spec.hpp"
#include "hang/on_hang.hpp"
#include "machine/numa_binding.hpp"
#include "platform/platform_plan.hpp"
#include "trust/token_source.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// The name under which muster was invoked. It affects only details of the behaviour
// (apps/README.md).
enum class Personality { muster, torchrun, torch_distributed_launch };

// How the user's program is run.
enum class ProgramKind {
  python_script,  // python -u SCRIPT
  python_module,  // python -u -m MODULE
  executable,     // run directly
};

struct Program {
  ProgramKind kind = ProgramKind::executable;
  std::string python;             // interpreter for the Python kinds: a path, or a name in PATH
  std::string name;               // script, module or executable, as typed
  std::vector<std::string> args;  // arguments of the program, verbatim
  std::string python_origin{};    // where the interpreter was found: "PYTHON_EXEC", "PATH"
  std::string problem{};          // why the program cannot be started; set only for --explain
  bool operator==(const Program&) const = default;
};

struct LaunchConfig {
  Personality personality = Personality::muster;
  Program program;

  int nodes_min = 1;
  int nodes_max = 1;
  int nproc = 1;        // number of workers on this node, with auto/gpu/cpu resolved
  int usable_cpus = 1;  // 0 if not counted, because no setting needs the number
  std::string usable_cpus_reason;

  std::string rdzv_backend;  // "static" or "c10d"
  std::string rdzv_id;
  std::vector<Endpoint> rdzv_endpoints;          // all with ports; more than one only for c10d
  std::map<std::string, std::string> rdzv_conf;  // as typed
  RendezvousConfig rendezvous;                   // parsed rdzv_conf
  TokenSource token;  // source of the secret that nodes authenticate with
  // All hosts of the job according to the platform. If the nodes share no secret, only these hosts
  // may join the job. If unset, any host may join.
  std::optional<Said<std::vector<std::string>>> named_hosts;
  bool standalone = false;          // --standalone, or (as in torchrun) one node without a port
  std::optional<int> node_rank;     // static: always set; c10d: only if specified
  bool nodes_are_numbered = false;  // node_rank comes from the platform, so it is unique per node
  std::vector<std::string> rank_order;  // node names from --rank-order; if empty, the natural order
  std::string iface;                    // the interface as typed; its address is in local_addr
  // Workers in multi-node jobs get GLOO_SOCKET_IFNAME and, with --iface, NCCL_SOCKET_IFNAME.
  bool socket_ifname = true;
  std::string local_addr;  // this node's address, from --local-addr or --iface; if empty, automatic
  // Inclusive range for all listening sockets. If unset, any free port is used.
  std::optional<std::pair<std::uint16_t, std::uint16_t>> port_range;
  // The address on which the workers' store listens and to which workers connect. Empty for several
  // nodes with c10d, because the workers then use the address of the node that gets rank 0.
  std::string master_addr = "127.0.0.1";
  std::uint16_t master_port = 0;  // 0 for any free port
  StoreVia store_via = StoreVia::direct;
  // True if the agent serves the workers' store. Otherwise (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)
  // the agent only reserves the port, and the worker with rank 0 serves the store.
  bool agent_store = true;
  int ports = 0;         // number of ports reserved on this node for its workers
  int leader_ports = 0;  // number of ports reserved on rank 0's node for all workers
  bool jax = false;      // set JAX's variables; one more port is reserved, for JAX's coordinator

  int max_restarts = 0;
  bool restart_by_rank = false;  // --restart=rank
  std::size_t vault_memory = 0;  // bytes for the records of this node's workers
  int spare_workers = 0;         // on this node; they replace failed workers
  int quick_failures = 3;        // consecutive startup failures that stop the job; 0 for no limit
  std::optional<Duration> restart_delay;  // fixed; otherwise it grows while there is no progress
  Duration restart_delay_longest{};       // to which it grows
  bool stop_on_verdict = false;           // --on-verdict=stop
  std::set<int> no_restart_on;            // exit codes of workers
  std::string role = "default";
  std::vector<int> signals_to_handle;
  std::string signals_to_handle_text;    // as typed, exported to workers
  bool watch_hangs = false;              // --hang-timeout is not off
  std::optional<Duration> hang_timeout;  // if unset, chosen automatically
  OnHang on_hang = OnHang::report;
  OnChildDeath on_child_death = OnChildDeath::ignore;
  bool file_timers = false;           // TORCHELASTIC_ENABLE_FILE_TIMER=1
  bool serves_kineto = false;         // KINETO_USE_DAEMON is set, and no other daemon was chosen
  std::optional<int> preempt_signal;  // announces that the scheduler will stop the job
  std::string preempt_file;           // announces it when it appears; empty if unused
  std::string preempt_url;            // "aws", "azure", "gcp", or a URL; empty if unused
  PreemptScope preempt_scope = PreemptScope::job;
  OnPreempt on_preempt = OnPreempt::exit;
  NodeCheck check = NodeCheck::off;
  SignalDelivery signal_delivery = SignalDelivery::leader;
  Duration shutdown_timeout{};
  // Unix time at which the scheduler kills the job. Set only if it extends shutdown_timeout.
  std::optional<std::int64_t> job_ends;
  std::optional<int> stdin_rank;   // local rank that inherits standard input
  bool stdin_rank_chosen = false;  // set explicitly, even to "none": do not warn about unread input

  // Python modules to import once in a parent process from which the workers are forked. If unset,
  // each worker is started cold. If the list is empty, the parent process imports the modules that
  // the program imports at its top level.
  std::optional<std::vector<std::string>> warm;

  std::string state_dir;       // directory of the round records; if empty, none are written
  std::string node_history;    // file of nodes on which rounds failed; if empty, none
  std::string log_dir;         // if empty, a new directory is created when needed
  bool logs_disabled = false;  // --log-dir=/dev/null
  StdSpec redirects;
  StdSpec tee;
  bool label = false;  // prefix each console line; write no files
  FoldLines fold = FoldLines::automatic;
  std::optional<std::set<int>> local_ranks_filter;
  std::optional<CpuSet> console_ranks;  // ranks of the job whose output is shown
  std::optional<std::vector<std::string>> duplicate_stdout_filters;
  std::optional<std::vector<std::string>> duplicate_stderr_filters;
  std::string log_line_prefix_template;
  LogLevel log_level = LogLevel::warning;
  std::optional<CpuSet> debug_ranks;  // ranks of the job that run under debugpy
  bool debug_waits = true;            // until a debugger has connected
  std::string on_event;               // shell command for events of the job; if empty, none
  std::optional<Endpoint> http;       // numeric, with a port (0 for any free port); none if off
  std::string http_key_file;          // FILE or FILE,shared; if empty, a random key
  bool http_has_key = true;           // false: --http-key=none

  bool virtual_local_rank = false;
  std::string devices;         // the visible GPUs from --devices; if empty, inherited
  NumaPlan numa_plan;          // the resulting masks on this node
  std::string local_rank_arg;  // "local_rank": pass --local_rank=N to the script; else empty

  PlatformPlan platform;  // the job as reported by the platform; already applied to the settings
  std::optional<TaskOfNode> task;  // set if the platform starts one launcher per worker

  std::string config_file;  // from --config; empty if there is none

  // Origin of each setting, keyed by long option name: "command line", "PET_NNODES", "config file
  // job.toml", "default", "implied by …".
  std::map<std::string, std::string> origins;

  // The value of each setting as --explain prints it, keyed like `origins`. This is the text from
  // the setting's source unless a step of resolve() replaces it.
  std::map<std::string, std::string> shown;

  bool operator==(const LaunchConfig&) const = default;
};

// True if a rendezvous is needed. Also true for 1:4, because more nodes may join.
[[nodiscard]] inline bool many_nodes(const LaunchConfig& config) {
  return config.nodes_max > 1;
}

// The number of ports reserved on rank 0's node, including the port of JAX's coordinator.
[[nodiscard]] inline int reserved_leader_ports(const LaunchConfig& config) {
  return config.leader_ports + (config.jax ? 1 : 0);
}

}  // namespace muster
