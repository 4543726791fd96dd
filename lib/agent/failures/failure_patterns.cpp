// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/failure_patterns.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace muster {
namespace {

struct ExceptionRow {
  std::string_view type;
  Cause cause;
};

// Exceptions whose type alone reveals the cause. All other exceptions are bugs, unless their
// message matches a row of kTexts.
constexpr std::array kExceptions{
    // Python
    ExceptionRow{"ImportError", Cause::import},
    ExceptionRow{"ModuleNotFoundError", Cause::import},
    ExceptionRow{"PackageNotFoundError", Cause::import},
    ExceptionRow{"DistributionNotFound", Cause::import},
    ExceptionRow{"SyntaxError", Cause::syntax},
    ExceptionRow{"IndentationError", Cause::syntax},
    ExceptionRow{"TabError", Cause::syntax},
    ExceptionRow{"MemoryError", Cause::host_memory},
    ExceptionRow{"AssertionError", Cause::assertion},
    ExceptionRow{"FloatingPointError", Cause::numerics},
    ExceptionRow{"ConnectionError", Cause::network},
    ExceptionRow{"ConnectionRefusedError", Cause::network},
    ExceptionRow{"ConnectionResetError", Cause::lost_peer},
    ExceptionRow{"ConnectionAbortedError", Cause::lost_peer},
    ExceptionRow{"BrokenPipeError", Cause::lost_peer},
    ExceptionRow{"EOFError", Cause::filesystem},
    ExceptionRow{"TimeoutError", Cause::network},
    ExceptionRow{"gaierror", Cause::network},
    ExceptionRow{"FileNotFoundError", Cause::filesystem},
    ExceptionRow{"PermissionError", Cause::filesystem},
    ExceptionRow{"IsADirectoryError", Cause::filesystem},
    ExceptionRow{"NotADirectoryError", Cause::filesystem},
    ExceptionRow{"FileExistsError", Cause::filesystem},
    ExceptionRow{"KeyboardInterrupt", Cause::preemption},
    // numpy
    ExceptionRow{"_ArrayMemoryError", Cause::host_memory},
    // torch
    ExceptionRow{"OutOfMemoryError", Cause::gpu_memory},
    ExceptionRow{"DistNetworkError", Cause::network},
    ExceptionRow{"DistStoreError", Cause::lost_peer},
    ExceptionRow{"SignalException", Cause::preemption},
    // requests, urllib, huggingface_hub
    ExceptionRow{"URLError", Cause::network},
    ExceptionRow{"HTTPError", Cause::network},
    ExceptionRow{"HfHubHTTPError", Cause::network},
    ExceptionRow{"LocalEntryNotFoundError", Cause::network},
    ExceptionRow{"ConnectTimeout", Cause::network},
    ExceptionRow{"ReadTimeout", Cause::network},
    ExceptionRow{"ReadTimeoutError", Cause::network},
    ExceptionRow{"MaxRetryError", Cause::network},
    ExceptionRow{"SSLError", Cause::network},
    ExceptionRow{"ProtocolError", Cause::network},
    ExceptionRow{"ChunkedEncodingError", Cause::network},
    ExceptionRow{"EndpointConnectionError", Cause::network},
    ExceptionRow{"ConnectTimeoutError", Cause::network},
    ExceptionRow{"ServerTimeoutError", Cause::network},
    ExceptionRow{"ClientConnectorError", Cause::network},
    // argparse, getopt, absl, click, wandb
    ExceptionRow{"UnrecognizedFlagError", Cause::usage},
    ExceptionRow{"IllegalFlagValueError", Cause::usage},
    ExceptionRow{"ArgumentError", Cause::usage},
    ExceptionRow{"GetoptError", Cause::usage},
    ExceptionRow{"UsageError", Cause::usage},
    ExceptionRow{"NoSuchOption", Cause::usage},
    ExceptionRow{"BadParameter", Cause::usage},
    ExceptionRow{"MissingParameter", Cause::usage},
    // hydra, omegaconf, Lightning, DeepSpeed, YAML, TOML
    ExceptionRow{"ConfigCompositionException", Cause::usage},
    ExceptionRow{"MissingConfigException", Cause::usage},
    ExceptionRow{"ConfigAttributeError", Cause::usage},
    ExceptionRow{"ConfigKeyError", Cause::usage},
    ExceptionRow{"ConfigTypeError", Cause::usage},
    ExceptionRow{"MissingMandatoryValue", Cause::usage},
    ExceptionRow{"InterpolationKeyError", Cause::usage},
    ExceptionRow{"MisconfigurationException", Cause::usage},
    ExceptionRow{"DeepSpeedConfigError", Cause::usage},
    ExceptionRow{"ScannerError", Cause::usage},
    ExceptionRow{"ParserError", Cause::usage},
    ExceptionRow{"TOMLDecodeError", Cause::usage},
    // huggingface_hub: a wrong name, or missing credentials
    ExceptionRow{"GatedRepoError", Cause::usage},
    ExceptionRow{"RepositoryNotFoundError", Cause::usage},
    ExceptionRow{"RevisionNotFoundError", Cause::usage},
};

struct TextRow {
  std::string_view text;  // in lower case
  Cause cause;
};

// lost_connection.cpp lists further texts. Ordered: a message may contain the texts of several
// rows, and the first row decides. Errors of hardware and of memory come first, because other
// messages follow from them. Timeouts of collectives are consequences, because another rank did not
// arrive.
constexpr std::array kTexts{
    // hardware: CUDA, NCCL, cuDNN, the kernel
    TextRow{"uncorrectable ecc", Cause::hardware},
    TextRow{"ecc error", Cause::hardware},
    TextRow{"cudaerroreccuncorrectable", Cause::hardware},
    TextRow{"uncorrectable nvlink", Cause::hardware},
    TextRow{"nvlink error was detected", Cause::hardware},
    TextRow{"fallen off the bus", Cause::hardware},
    TextRow{"gpu is lost", Cause::hardware},
    TextRow{"gpu has been lost", Cause::hardware},
    TextRow{"hardware stack error", Cause::hardware},
    // GPU memory: torch, CUDA, cuBLAS, JAX, NCCL, HIP
    TextRow{"cuda out of memory", Cause::gpu_memory},
    TextRow{"hip out of memory", Cause::gpu_memory},
    TextRow{"cuda error: out of memory", Cause::gpu_memory},
    TextRow{"hip error: out of memory", Cause::gpu_memory},
    TextRow{"cuda_error_out_of_memory", Cause::gpu_memory},
    TextRow{"cuda failure 'out of memory'", Cause::gpu_memory},
    TextRow{"cuda failure 2 'out of memory'", Cause::gpu_memory},
    TextRow{"cudaerrormemoryallocation", Cause::gpu_memory},
    TextRow{"cublas_status_alloc_failed", Cause::gpu_memory},
    TextRow{"cudnn_status_alloc_failed", Cause::gpu_memory},
    TextRow{"resource_exhausted: out of memory", Cause::gpu_memory},
    TextRow{"resource_exhausted: failed to allocate", Cause::gpu_memory},
    TextRow{"failed to allocate memory on device", Cause::gpu_memory},
    TextRow{"not enough memory. please try", Cause::gpu_memory},
    // host memory: glibc, the kernel, Slurm, torch, numpy
    TextRow{"oom_kill event", Cause::host_memory},
    TextRow{"oom-kill", Cause::host_memory},
    TextRow{"oom killed", Cause::host_memory},
    TextRow{"oomkilled", Cause::host_memory},
    TextRow{"out of memory: killed process", Cause::host_memory},
    TextRow{"cannot allocate memory", Cause::host_memory},
    TextRow{"can't allocate memory", Cause::host_memory},
    TextRow{"std::bad_alloc", Cause::host_memory},
    TextRow{"memoryerror", Cause::host_memory},
    TextRow{"is killed by signal: killed", Cause::host_memory},
    TextRow{"insufficient shared memory", Cause::host_memory},
    TextRow{"out of host memory", Cause::host_memory},
    // preemption: torchelastic, Slurm, Lightning
    TextRow{"got signal: 15", Cause::preemption},
    TextRow{"due to preemption", Cause::preemption},
    TextRow{"due to time limit", Cause::preemption},
    TextRow{"cancelled at", Cause::preemption},
    TextRow{"received sigterm", Cause::preemption},
    TextRow{"received signal 15", Cause::preemption},
    TextRow{"sigtermexception", Cause::preemption},
    // import: Python, the dynamic linker
    TextRow{"error while loading shared libraries", Cause::import},
    TextRow{"cannot open shared object file", Cause::import},
    TextRow{"symbol lookup error", Cause::import},
    TextRow{": no module named ", Cause::import},
    TextRow{"error while finding module specification", Cause::import},
    TextRow{"undefined symbol", Cause::import},
    TextRow{"failed to import ", Cause::import},
    TextRow{"could not find or load main class", Cause::import},
    TextRow{"code: 'module_not_found'", Cause::import},
    TextRow{"there is no package called", Cause::import},
    TextRow{"can't locate ", Cause::import},
    TextRow{"cannot load such file", Cause::import},
    TextRow{"bad interpreter: no such file", Cause::import},
    TextRow{"required file not found", Cause::import},
    TextRow{"` not found (required by", Cause::import},
    TextRow{"' not found (required by", Cause::import},
    // syntax: shells, Perl, Julia
    TextRow{"syntax error near unexpected token", Cause::syntax},
    TextRow{"syntax error: ", Cause::syntax},
    TextRow{"aborted due to compilation errors", Cause::syntax},
    TextRow{"unexpected eof while looking for matching", Cause::syntax},
    // usage: argparse, getopt, click, absl, gflags, hydra, transformers, fire, shells, Python
    TextRow{"error: unrecognized arguments", Cause::usage},
    TextRow{"error: the following arguments are required", Cause::usage},
    TextRow{"error: argument ", Cause::usage},
    TextRow{"error: ambiguous option", Cause::usage},
    TextRow{"unrecognized option", Cause::usage},
    TextRow{"unknown option", Cause::usage},
    TextRow{"invalid option", Cause::usage},
    TextRow{"no such option", Cause::usage},
    TextRow{"error: missing option", Cause::usage},
    TextRow{"error: missing argument", Cause::usage},
    TextRow{" missing argument '", Cause::usage},
    TextRow{"error parsing --", Cause::usage},
    TextRow{"no value for the required argument", Cause::usage},
    TextRow{"error: unexpected argument", Cause::usage},
    TextRow{"required arguments were not provided", Cause::usage},
    TextRow{"flag provided but not defined", Cause::usage},
    TextRow{"unknown flag: ", Cause::usage},
    TextRow{"unrecognised option", Cause::usage},
    TextRow{"arguments were not expected", Cause::usage},
    TextRow{"argument was not expected", Cause::usage},
    TextRow{"cannot execute binary file", Cause::usage},
    TextRow{"error: unrecognized subcommand", Cause::usage},
    TextRow{"/env: ", Cause::usage},
    TextRow{"error: invalid value for", Cause::usage},
    TextRow{"error: no such command", Cause::usage},
    TextRow{"option requires an argument", Cause::usage},
    TextRow{"requires an argument --", Cause::usage},
    TextRow{"unknown command line flag", Cause::usage},
    TextRow{"flags parsing error", Cause::usage},
    TextRow{"could not override", Cause::usage},
    TextRow{"is not in struct", Cause::usage},
    TextRow{"cannot find primary config", Cause::usage},
    TextRow{"not used by the hfargumentparser", Cause::usage},
    TextRow{"error: could not consume arg", Cause::usage},
    TextRow{"can't open file '", Cause::usage},
    TextRow{"command not found", Cause::usage},
    TextRow{": not found\n", Cause::usage},
    TextRow{"exec format error", Cause::usage},
    TextRow{"401 client error", Cause::usage},
    TextRow{"403 client error", Cause::usage},
    TextRow{"404 client error", Cause::usage},
    TextRow{"is not a valid model identifier", Cause::usage},
    // numerics: torch, DeepSpeed, Lightning, Megatron, JAX, transformers
    TextRow{"returned nan values", Cause::numerics},
    TextRow{"loss scale already at minimum", Cause::numerics},
    TextRow{"loss is nan", Cause::numerics},
    TextRow{"is nan or inf", Cause::numerics},
    TextRow{"nan in local", Cause::numerics},
    TextRow{"found nan", Cause::numerics},
    TextRow{"nan or inf", Cause::numerics},
    TextRow{"inf or nan", Cause::numerics},
    TextRow{"nan/inf", Cause::numerics},
    TextRow{"nan loss", Cause::numerics},
    TextRow{"detected nan", Cause::numerics},
    TextRow{"invalid value (nan)", Cause::numerics},
    TextRow{"contains nan", Cause::numerics},
    TextRow{"contain nan", Cause::numerics},
    TextRow{"nonfinite", Cause::numerics},
    TextRow{"non-finite", Cause::numerics},
    TextRow{"not finite", Cause::numerics},
    // lost peers: torch, NCCL, gloo, JAX, MPI
    TextRow{"watchdog caught collective operation timeout", Cause::lost_peer},
    TextRow{"collective operation timeout", Cause::lost_peer},
    TextRow{"heartbeat monitor", Cause::lost_peer},
    TextRow{"nccl communicator was aborted", Cause::lost_peer},
    TextRow{"nccl communicator encountered error set by", Cause::lost_peer},
    TextRow{"the following ranks failed", Cause::lost_peer},
    TextRow{"monitoredbarrier", Cause::lost_peer},
    TextRow{"timed out waiting", Cause::lost_peer},
    TextRow{"wait timeout after", Cause::lost_peer},
    TextRow{"socket timeout", Cause::lost_peer},
    TextRow{"application timeout caused pair closure", Cause::lost_peer},
    TextRow{"ncclsystemerror", Cause::lost_peer},
    TextRow{"failed to recv, got 0 bytes", Cause::lost_peer},
    TextRow{"socket closed", Cause::lost_peer},
    TextRow{"another task died", Cause::lost_peer},
    TextRow{"the tasks have crashed", Cause::lost_peer},
    TextRow{"unhealthy tasks", Cause::lost_peer},
    TextRow{"heartbeat timeout", Cause::lost_peer},
    TextRow{"barrier timed out", Cause::lost_peer},
    TextRow{"coordination service", Cause::lost_peer},
    TextRow{"deadline_exceeded", Cause::lost_peer},
    TextRow{"deadline exceeded", Cause::lost_peer},
    TextRow{"mpi_abort was invoked", Cause::lost_peer},
    TextRow{"mpi_err_proc_failed", Cause::lost_peer},
    TextRow{"got completion from peer", Cause::lost_peer},
    // network: services outside the job, name resolution, the rendezvous
    TextRow{"connection refused", Cause::network},
    TextRow{"connection timed out", Cause::network},
    TextRow{"temporary failure in name resolution", Cause::network},
    TextRow{"name or service not known", Cause::network},
    TextRow{"could not resolve host", Cause::network},
    TextRow{"network is unreachable", Cause::network},
    TextRow{"no route to host", Cause::network},
    TextRow{"max retries exceeded", Cause::network},
    TextRow{"read timed out", Cause::network},
    TextRow{"service unavailable", Cause::network},
    TextRow{"too many requests", Cause::network},
    TextRow{"bad gateway", Cause::network},
    TextRow{"gateway time", Cause::network},
    TextRow{"address already in use", Cause::network},
    TextRow{"couldn't connect to", Cause::network},
    TextRow{"failed to connect to", Cause::network},
    TextRow{"client socket has timed out", Cause::network},
    TextRow{"unavailable: ", Cause::network},
    // files
    TextRow{"no space left on device", Cause::filesystem},
    TextRow{"disk quota exceeded", Cause::filesystem},
    TextRow{"stale file handle", Cause::filesystem},
    TextRow{"input/output error", Cause::filesystem},
    TextRow{"read-only file system", Cause::filesystem},
    TextRow{"transport endpoint is not connected", Cause::filesystem},
    TextRow{"remote i/o error", Cause::filesystem},
    TextRow{"text file busy", Cause::filesystem},
    TextRow{"too many open files", Cause::filesystem},
    TextRow{"no such file or directory", Cause::filesystem},
    TextRow{"permission denied", Cause::filesystem},
    // assertions: C, C++, CUDA, XLA
    TextRow{"device-side assert triggered", Cause::assertion},
    TextRow{"assertion `", Cause::assertion},
    TextRow{"assertion failed", Cause::assertion},
    TextRow{"check failed:", Cause::assertion},
};

// Xid codes that report broken hardware: ECC (48, 63, 64, 92, 94, 95, 140, 171, 172), NVLink (74,
// 155 to 160), the bus (79), the GSP and other processors on the GPU (62, 119, 120, 122, 123, 136,
// 142, 143). All other codes may be the fault of a program.
constexpr std::array kHardwareXids{48,  62,  63,  64,  74,  79,  92,  94,  95,  119, 120, 122, 123,
                                   136, 140, 142, 143, 155, 156, 157, 158, 159, 160, 171, 172};

// Corrected errors are logged with other words, and a restart on the same node is fine.
constexpr std::array<std::string_view, 14> kHardwareLog{"fallen off the bus",
                                                        "uncorrectable ecc",
                                                        "uncorrectable error",
                                                        "uncorrected error",
                                                        "uncorrected, software",
                                                        " ue memory",
                                                        "machine check exception",
                                                        "controller is down",
                                                        "uncorrected hardware memory error",
                                                        "hardware memory corruption",
                                                        "medium error",
                                                        "unrecovered read error",
                                                        "severity=uncorrected",
                                                        "health compromised"};

// Only a GPU that does not answer is reported in these words.
constexpr std::array<std::string_view, 3> kLostGpu{
    "gpu is lost", "gpu has been lost", "fallen off the bus"};

// Modules that check a program's arguments and configuration.
constexpr std::array<std::string_view, 11> kArgumentModules{"/argparse.py",
                                                            "/getopt.py",
                                                            "/optparse.py",
                                                            "/training_args.py",
                                                            "/hf_argparser.py",
                                                            "/jsonargparse/",
                                                            "/pydantic/",
                                                            "/pydantic_settings/",
                                                            "/omegaconf/",
                                                            "/absl/flags/",
                                                            "/configargparse.py"};

bool has_any(std::string_view text, std::span<const std::string_view> known) {
  return std::ranges::any_of(
      known, [&](std::string_view each) { return text.find(each) != std::string_view::npos; });
}

}  // namespace

std::optional<Cause> cause_of_exception(std::string_view type) {
  const auto* const at = std::ranges::find(kExceptions, type, &ExceptionRow::type);
  return at == kExceptions.end() ? std::nullopt : std::optional(at->cause);
}

std::optional<Cause> cause_of_text(std::string_view text) {
  const auto* const at = std::ranges::find_if(
      kTexts, [&](const TextRow& row) { return text.find(row.text) != std::string_view::npos; });
  return at == kTexts.end() ? std::nullopt : std::optional(at->cause);
}

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus."
std::string hardware_error(std::string_view line) {
  if (const auto at = line.find("Xid ("); at != std::string_view::npos) {
    const auto colon = line.find("): ", at);
    int code = 0;
    if (colon != std::string_view::npos) {
      std::from_chars(line.data() + colon + 3, line.data() + line.size(), code);
    }
    const bool is_hardware = std::ranges::find(kHardwareXids, code) != kHardwareXids.end();
    return is_hardware ? "Xid " + std::to_string(code) : std::string();
  }
  return has_any(to_lower(line), kHardwareLog) ? std::string(trim(line)) : std::string();
}

bool names_lost_gpu(std::string_view text) {
  return has_any(text, kLostGpu);
}

bool checks_arguments(std::string_view frame) {
  return has_any(frame, kArgumentModules);
}

bool is_memory_kill(std::string_view line) {
  const std::string lower = to_lower(line);
  return lower.find("out of memory: kill") != std::string::npos ||
         lower.find("oom-kill:") != std::string::npos ||
         lower.find("memory cgroup out of memory") != std::string::npos;
}

}  // namespace muster
