// SPDX-License-Identifier: Apache-2.0
// The paths of a run's files: <log dir>/<run id>_<8 random>/attempt_<n>/<local rank>/…, like
// torchrun's. The files of all attempts are kept. Used by plan/ and by the agent's report. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// The run directory's name, "<run id>_<random>", which is safe to use as a path component.
[[nodiscard]] std::string run_dir_name(std::string_view rdzv_id, std::string_view random);

[[nodiscard]] std::string attempt_dir(std::string_view run_dir, int attempt);
// The k-th replacement of a worker (--restart=rank) has the directory <local rank>.<k>.
[[nodiscard]] std::string worker_dir(std::string_view run_dir,
                                     int attempt,
                                     int local_rank,
                                     int replacement = 0);

// The directory of the n-th spare worker (--spare-workers), until it replaces a worker.
[[nodiscard]] std::string spare_dir(std::string_view run_dir, int attempt, int number);

// Names in an attempt's directory: the named pipes that trigger a dump of PyTorch's flight
// recorders, and the dumps. The suffix is the rank (NCCL) or the pid. NCCL pipes and PyTorch flight
// files are removed at the end of the attempt.
inline constexpr std::string_view kNcclPipeStem = "nccl_pipe_";
inline constexpr std::string_view kNcclDumpStem = "nccl_trace_rank_";
inline constexpr std::string_view kTorchFlightStem = "torch_flights_";

// The named pipe with the requests of torch.distributed.elastic.timer, in an attempt's directory.
inline constexpr std::string_view kTimerPipe = "timers";
// Tells workers the path of the pipe. Users may choose the path with it.
inline constexpr std::string_view kTimerFileVariable = "TORCHELASTIC_TIMER_FILE";

// The folder with the sockets of PyTorch's profiler, Kineto.
inline constexpr std::string_view kKinetoFolderVariable = "KINETO_IPC_SOCKET_DIR";

}  // namespace muster
