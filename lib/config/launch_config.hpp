// SPDX-License-Identifier: Apache-2.0
// LaunchConfig: everything that the user decided, resolved and checked, each setting with its
// origin. Made once by resolve(); plan/ and agent/ only read it. Value type.
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

// How we were called; decides small differences of behaviour only (apps/README.md).
enum class Personality { muster, torchrun, torch_distributed_launch };

// How the user's program is run.
enum class ProgramKind {
  python_script,  // python -u SCRIPT
  python_module,  // python -u -m MODULE
  executable,     // as it is
};

struct Program {
  ProgramKind kind = ProgramKind::executable;
  std::string python;             // interpreter for the python kinds: a path or a name for PATH
  std::string name;               // script, module or executable, as typed
  std::vector<std::string> args;  // the user's, verbatim
  std::string python_origin{};    // how it was found: "PYTHON_EXEC", "PATH"
  std::string problem{};          // why it cannot be started; only where nothing is (--explain)
  bool operator==(const Program&) const = default;
};

// How workers of other nodes reach the store that the agent of rank 0's node serves.
enum class StoreVia {
  direct,  // they connect to it; their own node says whether they are of the job
  proxy,   // each agent listens on 127.0.0.1 and carries the bytes to that agent
  open,    // they connect to it, and so may everybody else
};

// Whom a signal to the launcher has reached already.
enum class SignalDelivery {
  leader,      // the launcher alone, which passes it on
  slurm_step,  // the workers too, where Slurm has sent it; else as leader
  group,       // the workers too, but for the keys of a terminal
};

// What follows when a job makes no progress.
enum class OnHang { report, restart, stop };

// What a process below a worker that is killed, crashes or fails means for the worker.
enum class OnChildDeath { ignore, fail };

struct LaunchConfig {
  Personality personality = Personality::muster;
  Program program;

  int nodes_min = 1;
  int nodes_max = 1;
  int nproc = 1;             // workers of this node, after auto/gpu/cpu were counted
  std::string nproc_reason;  // "auto: 2 GPUs seen in /proc/driver/nvidia", for --explain
  int usable_cpus = 1;       // 0: not counted, since nothing depends on it
  std::string usable_cpus_reason;

  std::string rdzv_backend;  // "static" or "c10d"
  std::string rdzv_id;
  std::vector<Endpoint> rdzv_endpoints;          // each with its port; more than one for c10d only
  std::map<std::string, std::string> rdzv_conf;  // as typed
  RendezvousConfig rendezvous;                   // what it means
  TokenSource token;                             // what nodes prove themselves with
  // The machines that the platform names, all of them; only these may join a job whose nodes have
  // no secret in common. None: any machine may.
  std::optional<Said<std::vector<std::string>>> named_hosts;
  bool standalone = false;       // asked for, or implied (contract of torchrun: one node, no port)
  std::optional<int> node_rank;  // static: always there; c10d: if it was given
  bool nodes_are_numbered = false;  // node_rank is the platform's, and so another one on each node
  std::vector<std::string> rank_order;  // node names of --rank-order; empty: natural order
  std::string iface;                    // as typed; its address is in local_addr
  // Workers of many nodes get GLOO_SOCKET_IFNAME, and with --iface NCCL_SOCKET_IFNAME.
  bool socket_ifname = true;
  std::string local_addr;  // this node's, of --local-addr or --iface; empty: chosen by us
  // Both ends belong to it; every listening socket lies inside. None: any free port.
  std::optional<std::pair<std::uint16_t, std::uint16_t>> port_range;
  // Where the workers' store is to listen, and what they dial. Empty for many nodes with c10d: the
  // address of the node that gets rank 0.
  std::string master_addr = "127.0.0.1";
  std::uint16_t master_port = 0;  // 0: any free port
  StoreVia store_via = StoreVia::direct;
  // The agent serves the workers' store; else (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1) it holds the
  // port for the worker of rank 0, which serves it.
  bool agent_store = true;
  int ports = 0;         // reserved on this node for its workers
  int leader_ports = 0;  // reserved on the node of rank 0 for all workers

  int max_restarts = 0;
  int quick_failures = 3;  // in a row end the job; 0: off
  std::string role = "default";
  std::vector<int> signals_to_handle;
  std::string signals_to_handle_text;    // as typed, exported to workers
  bool watch_hangs = false;              // --hang-timeout is not off
  std::optional<Duration> hang_timeout;  // none: auto
  OnHang on_hang = OnHang::report;
  OnChildDeath on_child_death = OnChildDeath::ignore;
  SignalDelivery signal_delivery = SignalDelivery::leader;
  Duration shutdown_timeout{};
  // Unix time at which the scheduler ends the job, where that prolongs shutdown_timeout.
  std::optional<std::int64_t> job_ends;
  std::optional<int> stdin_rank;   // local rank that gets our standard input
  bool stdin_rank_chosen = false;  // also "none": no warning is due that nobody reads it

  // Python: imported once, by a zygote that the workers are forked from. None: each worker is
  // started cold. Empty: what the program itself imports at its top level.
  std::optional<std::vector<std::string>> warm;

  std::string state_dir;       // of the record of rounds; empty: none is made
  std::string log_dir;         // empty: a fresh folder is made when one is needed
  bool logs_disabled = false;  // --log-dir=/dev/null
  StdSpec redirects;
  StdSpec tee;
  bool label = false;  // a prefix before each line on the console, without files
  std::optional<std::set<int>> local_ranks_filter;
  std::optional<std::vector<std::string>> duplicate_stdout_filters;
  std::optional<std::vector<std::string>> duplicate_stderr_filters;
  std::string log_line_prefix_template;
  LogLevel log_level = LogLevel::warning;
  std::optional<Endpoint> http;  // numeric, with its port (0: any free one); none: not served
  std::string http_key_file;     // FILE or FILE,shared; empty: a random key
  bool http_has_key = true;      // false: --http-key=none

  bool virtual_local_rank = false;
  std::string devices;         // the workers' visible GPUs, of --devices; empty: as inherited
  std::string numa_binding;    // the policy as typed
  NumaPlan numa_plan;          // what it comes to on this machine
  std::string local_rank_arg;  // "local_rank": --local_rank=N before user args; empty: nothing

  PlatformPlan platform;           // what the environment says of the job; its effect is elsewhere
  std::optional<TaskOfNode> task;  // the platform starts a launcher for each worker; this is one

  std::string config_file;  // of --config; empty: none

  // Origin of each setting by its long option name: "command line", "PET_NNODES", "config file
  // job.toml", "default", "implied by …".
  std::map<std::string, std::string> origins;

  // Settings of torchrun that were taken but have no effect here, by long option name.
  std::map<std::string, std::string> accepted;

  bool operator==(const LaunchConfig&) const = default;
};

// Whether nodes have to meet at all. A job of 1:4 may run with one, but others may come.
[[nodiscard]] inline bool many_nodes(const LaunchConfig& config) {
  return config.nodes_max > 1;
}

}  // namespace muster
