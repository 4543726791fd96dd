// SPDX-License-Identifier: Apache-2.0
#include "plan/worker_env.hpp"

#include "base/endpoint.hpp"
#include "base/text.hpp"
#include "plan/local_rank.hpp"
#include "plan/log_layout.hpp"
#include "plan/mpi_place.hpp"
#include "plan/slurm_place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace muster {
namespace {

void set_ranks(Environ& out, const LaunchConfig& config, const Assignment& a, int local_rank) {
  const auto set = [&](std::string_view name, int value) { out.set(name, std::to_string(value)); };
  set("LOCAL_RANK", local_rank_of(config, local_rank));
  set("RANK", a.rank_first + local_rank);
  set("GROUP_RANK", a.group_rank);
  set("ROLE_RANK", a.role_rank_first + local_rank);
  out.set("ROLE_NAME", config.role);
  set("LOCAL_WORLD_SIZE", a.local_world_size);
  set("WORLD_SIZE", a.world_size);
  set("GROUP_WORLD_SIZE", a.group_world_size);
  set("ROLE_WORLD_SIZE", a.role_world_size);
}

// With one launcher per worker, these values describe the host that the launchers share.
void set_task(Environ& out, const TaskOfNode& task) {
  const auto set = [&](std::string_view name, int value) { out.set(name, std::to_string(value)); };
  if (task.local_size) {
    set("LOCAL_WORLD_SIZE", *task.local_size);
  }
  if (task.node && task.nodes) {
    set("GROUP_RANK", *task.node);
    set("GROUP_WORLD_SIZE", *task.nodes);
  }
}

void set_elastic(Environ& out, const LaunchConfig& config, const Assignment& a) {
  out.set("MASTER_ADDR", a.master_addr);
  out.set("MASTER_PORT", std::to_string(a.master_port));
  out.set("TORCHELASTIC_RESTART_COUNT", std::to_string(a.restart_count));
  out.set("TORCHELASTIC_MAX_RESTARTS", std::to_string(config.max_restarts));
  out.set("TORCHELASTIC_RUN_ID", config.rdzv_id);
  // Python code checks that this variable is exactly "True".
  out.set("TORCHELASTIC_USE_AGENT_STORE", a.agent_store ? "True" : "False");
  out.set("TORCHELASTIC_SIGNALS_TO_HANDLE", config.signals_to_handle_text);
  // By default a worker derives its own address from the store's address, which is a local proxy
  // here.
  if (!a.node_addr.empty() && !out.get("MUSTER_COLLECTIVE_ADDRESS")) {
    out.set("MUSTER_COLLECTIVE_ADDRESS", a.node_addr);
  }
  // The collective library's connections between ranks use the same port range.
  if (config.port_range && !out.get("MUSTER_COLLECTIVE_PORT_RANGE")) {
    out.set("MUSTER_COLLECTIVE_PORT_RANGE",
            fmt::format("{}-{}", config.port_range->first, config.port_range->second));
  }
}

// gloo and TensorPipe resolve the host's own name, which may be 127.0.1.1 or unknown. Other nodes
// reach us at the address of this interface. NCCL finds an interface without help, but should
// follow --iface. Values set by the user are kept.
void set_interface(Environ& out, const LaunchConfig& config, const std::string& name) {
  if (name.empty() || !config.socket_ifname) {
    return;
  }
  for (const std::string_view variable : {"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"}) {
    if (!out.get(variable)) {
      out.set(variable, name);
    }
  }
  if (!config.iface.empty() && !out.get("NCCL_SOCKET_IFNAME")) {
    out.set("NCCL_SOCKET_IFNAME", "=" + name);  // exact match: eth1 is also a prefix of eth10
  }
}

// The pipes through which muster requests a dump from PyTorch's flight recorders when the worker
// hangs, and the paths of the dumps. PyTorch itself dumps NCCL's recorder;
// lib/python/muster_torch_flights.py dumps gloo's.
void set_flights(Environ& out, const std::string& folder) {
  if (folder.empty()) {
    return;
  }
  out.set("MUSTER_TORCH_FLIGHTS", fmt::format("{}/{}", folder, kTorchFlightStem));
  if (out.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")) {
    return;  // the user has set up dumps already
  }
  out.set("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", fmt::format("{}/{}", folder, kNcclPipeStem));
  if (!out.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE") && !out.get("TORCH_FR_DUMP_TEMP_FILE")) {
    out.set("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", fmt::format("{}/{}", folder, kNcclDumpStem));
  }
}

// Without a pipe, PyTorch's client must not write to a file of the user that has this name.
void set_timers(Environ& out, const std::string& pipe) {
  if (pipe.empty()) {
    out.erase(kTimerFileVariable);
  } else {
    out.set(kTimerFileVariable, pipe);
  }
}

// The number of CPUs for one worker: an equal share, or the CPUs that a bound worker owns. Lower if
// a cgroup quota allows less than the total of all workers' shares.
int share_of(const LaunchConfig& config, int local_rank) {
  const int equal = std::max(1, config.usable_cpus / config.nproc);
  const auto& ranks = config.numa_plan.ranks;
  const auto index = static_cast<std::size_t>(local_rank);
  if (index >= ranks.size()) {
    return equal;
  }
  const bool limited = config.usable_cpus < config.numa_plan.cpus;
  return limited ? std::min(ranks[index].owned, equal) : ranks[index].owned;
}

// The number of threads of one worker. None lets the worker decide, as torchrun does for a single
// worker.
std::optional<int> threads_of(const LaunchConfig& config, int local_rank) {
  if (config.personality != Personality::muster) {
    return config.nproc > 1 ? std::optional(1) : std::nullopt;
  }
  return share_of(config, local_rank);
}

// The number of threads that suits every worker: the minimum over all workers.
std::optional<int> threads_of_each(const LaunchConfig& config) {
  std::optional<int> least = threads_of(config, 0);
  for (int local_rank = 1; least && local_rank < config.nproc; ++local_rank) {
    least = std::min(*least, threads_of(config, local_rank).value_or(*least));
  }
  return least;
}

void set_threads(Environ& out, std::optional<int> threads) {
  if (threads) {
    out.set("OMP_NUM_THREADS", std::to_string(*threads));
  }
}

void set_ports(Environ& out, std::string_view name, const std::vector<std::uint16_t>& ports) {
  if (!ports.empty()) {
    out.set(name, fmt::format("{}", fmt::join(ports, ",")));
  }
}

// What jax.distributed.initialize() reads, directly or through lib/python/muster_jax_cluster.py. As
// with JAX's own cluster types, each of several workers on a host uses one device. A single worker
// uses all devices. Device IDs set by the user are kept.
void set_jax(Environ& out, const LaunchConfig& config, const Assignment& a, int local_rank) {
  if (!config.jax) {
    return;
  }
  const std::string& host = a.leader_addr.empty() ? a.master_addr : a.leader_addr;
  out.set("JAX_COORDINATOR_ADDRESS", Endpoint{host, a.jax_port}.describe());
  out.set("JAX_NUM_PROCESSES", std::to_string(a.world_size));
  out.set("JAX_PROCESS_ID", std::to_string(a.rank_first + local_rank));
  const int here = config.task ? config.task->local_size.value_or(1) : a.local_world_size;
  if (here > 1 && !out.get("JAX_LOCAL_DEVICE_IDS")) {
    out.set("JAX_LOCAL_DEVICE_IDS", std::to_string(local_rank_of(config, local_rank)));
  }
}

// Python's startup checks this variable (lib/python/muster_torch_replaces.pth). It is the same for
// all workers of a node, because with --warm they share one startup.
void mark_jax(Environ& out, const LaunchConfig& config) {
  if (config.jax) {
    out.set("MUSTER_JAX", "1");
  } else {
    out.erase("MUSTER_JAX");  // an outer launcher's
  }
}

// If this launcher has no socket, removes MUSTER_AGENT, which may name an outer launcher's socket.
void set_agent(Environ& out, const std::string& socket) {
  if (socket.empty()) {
    out.erase("MUSTER_AGENT");
  } else {
    out.set("MUSTER_AGENT", socket);
  }
}

void set_defaults(Environ& out) {
  if (!out.get("TORCH_NCCL_ASYNC_ERROR_HANDLING")) {
    out.set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  }
}

// Assigns the worker one GPU: the one at the index of its local rank in the inherited list.
Result<void> set_virtual_gpu(Environ& out, int local_rank) {
  const auto hip = out.get("HIP_VISIBLE_DEVICES");
  const bool use_hip = hip && !hip->empty();
  const std::string_view source = use_hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
  const auto list = out.get(source);
  std::string device = std::to_string(local_rank);
  if (list) {
    const auto devices = split(*list, ',');
    const auto index = static_cast<std::size_t>(local_rank);
    if (trim(*list).empty() || index >= devices.size()) {
      return failure(Errc::usage,
                     fmt::format("--virtual-local-rank: local rank {} has no GPU in {}={}; start "
                                 "fewer workers or list more GPUs",
                                 local_rank,
                                 source,
                                 *list));
    }
    device = trim(devices[index]);
  }
  out.set("CUDA_VISIBLE_DEVICES", device);
  if (use_hip) {
    out.set("HIP_VISIBLE_DEVICES", device);
  }
  return {};
}

}  // namespace

Environ node_env(const LaunchConfig& config, const Environ& environ) {
  Environ out = environ;
  leave_mpi_place(out, config.nproc);
  leave_slurm_place(out, config);
  set_defaults(out);
  mark_jax(out, config);
  if (!environ.get("OMP_NUM_THREADS")) {
    set_threads(out, threads_of_each(config));
  }
  return out;
}

Result<Environ> worker_env(const LaunchConfig& config,
                           const Environ& environ,
                           const Assignment& assignment,
                           int local_rank,
                           const WorkerContact& contact) {
  Environ out = environ;
  leave_mpi_place(out, config.nproc);
  take_slurm_place(out, config, assignment, local_rank);
  set_defaults(out);
  if (!environ.get("OMP_NUM_THREADS")) {
    set_threads(out, threads_of(config, local_rank));
  }
  set_ranks(out, config, assignment, local_rank);
  if (config.task) {
    set_task(out, *config.task);
  }
  set_elastic(out, config, assignment);
  set_interface(out, config, assignment.interface);
  set_ports(out, "MUSTER_PORTS", assignment.ports);
  set_ports(out, "MUSTER_LEADER_PORTS", assignment.leader_ports);
  mark_jax(out, config);
  set_jax(out, config, assignment, local_rank);
  out.set("TORCHELASTIC_ERROR_FILE", contact.error_file);
  out.set("MUSTER_EPOCH", std::to_string(assignment.epoch));
  set_agent(out, contact.agent_socket);
  set_flights(out, contact.flights);
  if (config.file_timers) {
    set_timers(out, contact.timer_file);
  }
  if (!contact.kineto_folder.empty()) {
    out.set(kKinetoFolderVariable, contact.kineto_folder);
  }
  if (config.virtual_local_rank) {
    MUSTER_RETURN_IF_ERROR(set_virtual_gpu(out, local_rank));
  }
  return out;
}

}  // namespace muster
