// SPDX-License-Identifier: Apache-2.0
// LaunchConfig: all settings, resolved and checked, each with its origin. Created once by
// resolve(); plan/ and agent/ only read it. Value type.
#pragma once

#include "base/endpoint.hpp"
#include "base/log.hpp"
#include "base/time.hpp"
#include "config/rendezvous_config.hpp"
#include "config/std_spec.hpp"
#include "machine/numa_binding.hpp"
#include "platform/platform_plan.hpp"
#include "trust/token_source.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// The name muster was invoked by. It affects only details of its behaviour (apps/README.md).
enum class Personality { muster, torchrun, torch_distributed_launch };

// How the user's program is run.
enum class ProgramKind {
  python_script,  // python -u SCRIPT
  python_module,  // python -u -m MODULE
  executable,     // run directly
};

struct Program {
  ProgramKind kind = ProgramKind::executable;
  std::string python;             // interpreter for the python kinds: a path, or a name in PATH
  std::string name;               // script, module or executable, as typed
  std::vector<std::string> args;  // arguments of the program, verbatim
  std::string python_origin{};    // where it was found: "PYTHON_EXEC", "PATH"
  std::string problem{};          // why it cannot be started; set only for --explain
  bool operator==(const Program&) const = default;
};

// How workers on other nodes reach the store, which the agent on rank 0's node serves.
enum class StoreVia {
  direct,  // they connect to it; their node's agent confirms that they belong to the job
  proxy,   // each agent listens on 127.0.0.1 and forwards traffic to that agent
  open,    // they connect to it, without access control
};

// Which processes receive a signal directly.
enum class SignalDelivery {
  leader,      // only the launcher, which forwards it
  slurm_step,  // also the workers if Slurm sent it; otherwise as leader
  group,       // also the workers, except for signals from the terminal
};

// What to do if a job makes no progress.
enum class OnHang { report, restart, stop };

// What to do with a worker if one of its child processes crashes, fails or is killed.
enum class OnChildDeath { ignore, fail };

struct LaunchConfig {
  Personality personality = Personality::muster;
  Program program;

  int nodes_min = 1;
  int nodes_max = 1;
  int nproc = 1;             // workers on this node, with auto/gpu/cpu resolved
  std::string nproc_reason;  // "auto: 2 GPUs seen in /proc/driver/nvidia", for --explain
  int usable_cpus = 1;       // 0: not counted because it is not needed
  std::string usable_cpus_reason;

  std::string rdzv_backend;  // "static" or "c10d"
  std::string rdzv_id;
  std::vector<Endpoint> rdzv_endpoints;          // all with ports; several only for c10d
  std::map<std::string, std::string> rdzv_conf;  // as typed
  RendezvousConfig rendezvous;                   // parsed rdzv_conf
  TokenSource token;  // source of the secret that nodes authenticate with
  // All hosts of the job according to the platform. Only these may join a job whose nodes share no
  // secret. None: any host may join.
  std::optional<Said<std::vector<std::string>>> named_hosts;
  bool standalone = false;              // set, or implied as in torchrun by one node without a port
  std::optional<int> node_rank;         // static: always set; c10d: only if specified
  bool nodes_are_numbered = false;      // node_rank is from the platform, so it is unique per node
  std::vector<std::string> rank_order;  // node names of --rank-order; empty: natural order
  std::string iface;                    // as typed; its address is in local_addr
  // Workers in multi-node jobs get GLOO_SOCKET_IFNAME, and with --iface NCCL_SOCKET_IFNAME.
  bool socket_ifname = true;
  std::string local_addr;  // this node's address, from --local-addr or --iface; empty: automatic
  // Inclusive range for all listening sockets. None: any free port.
  std::optional<std::pair<std::uint16_t, std::uint16_t>> port_range;
  // Where the workers' store listens and workers connect. Empty for several nodes with c10d, which
  // use the address of the node that gets rank 0.
  std::string master_addr = "127.0.0.1";
  std::uint16_t master_port = 0;  // 0: any free port
  StoreVia store_via = StoreVia::direct;
  // True if the agent serves the workers' store. Otherwise (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)
  // it reserves the port for the worker of rank 0, which serves the store.
  bool agent_store = true;
  int ports = 0;         // number reserved on this node for its workers
  int leader_ports = 0;  // number reserved on the node of rank 0 for all workers

  int max_restarts = 0;
  int quick_failures = 3;  // startup failures in a row that stop the job; 0: off
  std::string role = "default";
  std::vector<int> signals_to_handle;
  std::string signals_to_handle_text;    // as typed, exported to workers
  bool watch_hangs = false;              // --hang-timeout is not off
  std::optional<Duration> hang_timeout;  // none: auto
  OnHang on_hang = OnHang::report;
  OnChildDeath on_child_death = OnChildDeath::ignore;
  SignalDelivery signal_delivery = SignalDelivery::leader;
  Duration shutdown_timeout{};
  // Unix time at which the scheduler kills the job; set if it extends shutdown_timeout.
  std::optional<std::int64_t> job_ends;
  std::optional<int> stdin_rank;   // local rank that inherits standard input
  bool stdin_rank_chosen = false;  // set explicitly, even to "none": do not warn about unread input

  // Python modules to import once in a parent process from which the workers are forked. None:
  // start each worker cold. Empty: the program's own top-level imports.
  std::optional<std::vector<std::string>> warm;

  std::string state_dir;       // directory of the round records; empty: do not write any
  std::string log_dir;         // empty: create a new directory when needed
  bool logs_disabled = false;  // --log-dir=/dev/null
  StdSpec redirects;
  StdSpec tee;
  bool label = false;  // prefix each console line; no files
  std::optional<std::set<int>> local_ranks_filter;
  std::optional<std::vector<std::string>> duplicate_stdout_filters;
  std::optional<std::vector<std::string>> duplicate_stderr_filters;
  std::string log_line_prefix_template;
  LogLevel log_level = LogLevel::warning;
  std::optional<Endpoint> http;  // numeric, with port (0: any free port); none: no HTTP server
  std::string http_key_file;     // FILE or FILE,shared; empty: a random key
  bool http_has_key = true;      // false: --http-key=none

  bool virtual_local_rank = false;
  std::string devices;         // visible GPUs from --devices; empty: inherited
  std::string numa_binding;    // the policy as typed
  NumaPlan numa_plan;          // the resulting masks on this node
  std::string local_rank_arg;  // "local_rank": add --local_rank=N before user args; empty: nothing

  PlatformPlan platform;           // the platform's view of the job; already applied to settings
  std::optional<TaskOfNode> task;  // set if the platform starts one launcher per worker

  std::string config_file;  // from --config; empty: none

  // Origin of each setting, keyed by long option name: "command line", "PET_NNODES", "config file
  // job.toml", "default", "implied by …".
  std::map<std::string, std::string> origins;

  // torchrun settings that are accepted but have no effect, keyed by long option name.
  std::map<std::string, std::string> accepted;

  bool operator==(const LaunchConfig&) const = default;
};

// Whether a rendezvous is needed. True for 1:4 as well, since further nodes may join.
[[nodiscard]] inline bool many_nodes(const LaunchConfig& config) {
  return config.nodes_max > 1;
}

}  // namespace muster
