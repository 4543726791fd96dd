// SPDX-License-Identifier: Apache-2.0
#include "base/plural.hpp"
#include "base/text.hpp"
#include "config/options/values.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace muster {
namespace {

// More than the number of CPUs of any host. A larger number is assumed to be a typo.
constexpr int kNprocMax = 16384;

// The number of visible MIG slices.
std::size_t visible_slices(const Resolution& r) {
  const std::string list(r.environ.get("CUDA_VISIBLE_DEVICES").value_or(""));
  return trim(list).starts_with("MIG-") ? split(list, ',').size() : 0;
}

// CUDA shows a process only one slice, no matter how many are listed, but each worker may use a
// different slice.
void count_slices(const Resolution& r, Count& gpus) {
  const std::size_t slices = visible_slices(r);
  if (gpus.count > 0 && slices > 0 && r.layers.is_on(OptionId::virtual_local_rank)) {
    gpus = {static_cast<int>(slices), counted(slices, "MIG slice") + ", one per worker"};
  }
}

Result<Count> count_workers(const Resolution& r, const std::string& text) {
  const std::string word = to_lower(trim(text));
  if (word == "cpu") {
    return r.machine.usable_cpus();
  }
  if (const std::string& devices = r.config().devices;
      !devices.empty() && (word == "gpu" || word == "auto")) {
    const auto count = static_cast<int>(std::ranges::count(devices, ',')) + 1;
    return Count{count, fmt::format("{} of --devices", count)};
  }
  if (word == "gpu" || word == "auto") {
    Count gpus = r.machine.usable_gpus(r.environ);
    count_slices(r, gpus);
    if (gpus.count > 0) {
      return gpus;
    }
    if (word == "gpu") {
      return r.layers.refuse(OptionId::nproc_per_node, "no usable GPU: " + gpus.reason);
    }
    Count cpus = r.machine.usable_cpus();
    cpus.reason += "; " + gpus.reason;
    return cpus;
  }
  if (word == "xpu") {
    return r.layers.refuse(OptionId::nproc_per_node,
                           "muster cannot count these devices; specify the number of workers");
  }
  return r.layers.refuse(OptionId::nproc_per_node, "must be a number, auto, gpu or cpu");
}

Result<void> resolve_nproc(const Resolution& r) {
  const std::string& text = r.layers.text(OptionId::nproc_per_node);
  if (const auto number = parse_python_int(text)) {
    if (*number < 1 || *number > kNprocMax) {
      return r.layers.refuse(OptionId::nproc_per_node,
                             fmt::format("must be from 1 to {}", kNprocMax));
    }
    r.config().nproc = static_cast<int>(*number);
    r.show(OptionId::nproc_per_node, std::to_string(*number));
    return {};
  }
  auto counted = count_workers(r, text);
  MUSTER_RETURN_IF_ERROR(counted);
  r.config().nproc = counted->count;
  r.show(OptionId::nproc_per_node,
         fmt::format("{} ({}: {})", counted->count, text, counted->reason));
  return {};
}

// If the platform starts one launcher per worker without binding, all of them share the same CPUs.
void share_cpus(const Resolution& r, Count& cpus) {
  const auto& task = r.config().task;
  const int sharers = task ? task->local_size.value_or(1) : 1;
  if (sharers > 1 && !r.machine.has_own_cpus(task->cpus_here)) {
    cpus.reason += fmt::format(", shared by {} launchers", sharers);
    cpus.count = std::max(1, cpus.count / sharers);
  }
}

// The number of CPUs is needed only for OMP_NUM_THREADS.
void resolve_cpus(const Resolution& r) {
  if (r.environ.get("OMP_NUM_THREADS") && r.line.command == Command::launch) {
    r.config().usable_cpus = 0;
    return;
  }
  Count cpus = r.machine.usable_cpus();
  share_cpus(r, cpus);
  r.config().usable_cpus = cpus.count;
  r.config().usable_cpus_reason = std::move(cpus.reason);
}

// By default mpirun binds each process to one core, and the workers inherit the binding.
void note_narrow_mask(const Resolution& r) {
  const LaunchConfig& config = r.config();
  const bool is_counted = config.usable_cpus > 0;
  if (!is_counted || config.usable_cpus >= config.nproc || !r.machine.has_own_cpus(std::nullopt)) {
    return;
  }
  const std::string& by = config.platform.name;
  r.warn(fmt::format("{} workers share {}: {}",
                     config.nproc,
                     config.usable_cpus_reason,
                     by == "open-mpi" ? "pass --bind-to none to mpirun"
                     : by == "slurm"  ? "pass --cpus-per-task=N or --cpu-bind=none to srun"
                     : by == "hydra"  ? "pass -bind-to none to mpiexec"
                                      : "muster inherited this CPU affinity; widen it"));
}

// True if one of the visibility lists is too short for all workers.
bool is_narrowed(const Resolution& r) {
  constexpr std::array kVariables{
      "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"};
  return std::ranges::any_of(kVariables, [&](const char* name) {
    const std::string list(r.environ.get(name).value_or(""));
    const auto entries = static_cast<int>(std::ranges::count(list, ',')) + 1;
    const bool one_slice = trim(list).starts_with("MIG-");
    return !trim(list).empty() && (entries < r.config().nproc || one_slice);
  });
}

// A task with fewer GPUs than workers is a common mistake, and CUDA's "invalid device ordinal" does
// not explain it. GPUs are counted only if this mistake is likely, because opening each GPU may
// take a second.
void note_narrowed_gpus(const Resolution& r) {
  if (r.config().nproc == 1 || r.config().virtual_local_rank || !is_narrowed(r)) {
    return;
  }
  const Count seen = r.machine.usable_gpus(r.environ);
  if (seen.count > 0 && seen.count < r.config().nproc) {
    r.warn(
        fmt::format("{} workers, but {}: cuda:LOCAL_RANK does not exist for local rank {} and "
                    "above; {}",
                    r.config().nproc,
                    seen.reason,
                    seen.count,
                    visible_slices(r) > 1
                        ? "a process can use only one MIG slice; use --virtual-local-rank"
                        : "request more GPUs from the scheduler, or use --nproc-per-node=gpu"));
  }
}

Result<void> resolve_stdin_rank(const Resolution& r) {
  const std::string text = to_lower(trim(r.layers.text(OptionId::stdin_rank)));
  const int nproc = r.config().nproc;
  if (text.empty()) {
    const bool alone = nproc == 1;
    const bool talks = alone || r.machine.stdin_is_terminal();
    r.config().stdin_rank = talks ? std::optional(0) : std::nullopt;
    r.show(OptionId::stdin_rank, talks ? "0" : "none");
    r.set_origin(OptionId::stdin_rank,
                 alone   ? "default: one worker"
                 : talks ? "default: a terminal"
                         : "default: none");
    return {};
  }
  r.config().stdin_rank_chosen = true;
  if (text == "none") {
    return {};
  }
  const auto rank = parse_python_int(text);
  if (!rank || *rank < 0 || *rank >= nproc) {
    return r.layers.refuse(OptionId::stdin_rank,
                           fmt::format("must be none or a local rank from 0 to {}", nproc - 1));
  }
  r.config().stdin_rank = static_cast<int>(*rank);
  return {};
}

}  // namespace

Result<void> resolve_workers(const Resolution& r) {
  if (auto done = resolve_nproc(r); !done) {
    return done;
  }
  resolve_cpus(r);
  r.config().role = r.layers.text(OptionId::role);
  r.config().virtual_local_rank = r.layers.is_on(OptionId::virtual_local_rank);
  note_narrowed_gpus(r);
  note_narrow_mask(r);
  return resolve_stdin_rank(r);
}

}  // namespace muster
