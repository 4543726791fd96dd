// SPDX-License-Identifier: Apache-2.0
// Machine: the facts about this host that the configuration may need. Each fact is read only when
// it is needed, so --help costs nothing. Called by resolve(). LinuxMachine is the production
// implementation; tests use fakes. Interface; used on the launcher's main thread.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "machine/numa_binding.hpp"
#include "machine/own_addresses.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// A number of devices and how it was determined; shown by --explain.
struct Count {
  int count = 0;
  std::string reason;
  bool operator==(const Count&) const = default;
};

// The MIG slices of this host's NVIDIA GPUs.
struct MigSlices {
  int count = 0;                   // from the driver's files
  std::vector<std::string> names;  // for CUDA_VISIBLE_DEVICES; empty if unknown
  bool operator==(const MigSlices&) const = default;
};

// noexec: the file is executable, but its file system is mounted noexec.
enum class FileKind { missing, folder, executable, noexec, plain, other };

class Machine {
 public:
  virtual ~Machine() = default;

  [[nodiscard]] virtual std::string hostname() const = 0;
  // The CPUs that this process may use: the affinity mask, further limited by a cgroup quota.
  [[nodiscard]] virtual Count usable_cpus() const = 0;
  // True if our affinity mask excludes some CPUs: it has fewer CPUs than the host and, if `shared`
  // is known, fewer than `shared`.
  [[nodiscard]] virtual bool has_own_cpus(std::optional<int> shared) const = 0;
  // GPUs that a worker started with this environment would see.
  [[nodiscard]] virtual Count usable_gpus(const Environ& environ) const = 0;
  // True if the host's GPUs are from AMD, regardless of visibility variables.
  [[nodiscard]] virtual bool has_amd_gpus() const = 0;
  // Runs nvidia-smi, which is slow, if there are slices.
  [[nodiscard]] virtual MigSlices mig_slices() const = 0;
  // The CPUs and memory for each of `ranks` local ranks that are started with this environment.
  // Error: usage, as for bind_ranks.
  [[nodiscard]] virtual Result<NumaPlan> numa_plan(NumaPolicy policy,
                                                   int ranks,
                                                   const Environ& environ) const = 0;

  [[nodiscard]] virtual FileKind file_kind(const std::string& path) const = 0;
  [[nodiscard]] virtual Result<std::string> read_file(const std::string& path) const = 0;
  // The current directory; empty if unknown.
  [[nodiscard]] virtual std::string working_folder() const = 0;
  // The path that was used to start this program; links are not resolved. Empty if unknown.
  [[nodiscard]] virtual std::string own_path() const = 0;
  [[nodiscard]] virtual Result<std::vector<OwnAddress>> own_addresses() const = 0;
  // True if a server could listen on this port on all addresses at this moment.
  [[nodiscard]] virtual bool is_port_free(std::uint16_t port) const = 0;
  // Whether this process's standard input is a terminal.
  [[nodiscard]] virtual bool stdin_is_terminal() const = 0;
  // 32 random hexadecimal digits.
  [[nodiscard]] virtual std::string random_hex() const = 0;
};

}  // namespace muster
