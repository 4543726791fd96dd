// SPDX-License-Identifier: Apache-2.0
// Machine: the questions that settings may ask this computer, each asked only when its answer is
// needed (so that --help costs nothing). resolve() calls it; LinuxMachine is the real one, tests
// have their own. Interface; the launcher's main thread.
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

// A number of devices and how it was found, for --explain.
struct Count {
  int count = 0;
  std::string reason;
  bool operator==(const Count&) const = default;
};

// The slices into which this machine's NVIDIA GPUs are cut (MIG).
struct MigSlices {
  int count = 0;                   // by the driver's files
  std::vector<std::string> names;  // as CUDA_VISIBLE_DEVICES takes them; empty where nobody tells
  bool operator==(const MigSlices&) const = default;
};

// noexec: it may be executed, but not on the file system where it is.
enum class FileKind { missing, folder, executable, noexec, plain, other };

class Machine {
 public:
  virtual ~Machine() = default;

  [[nodiscard]] virtual std::string hostname() const = 0;
  // Processors that this process may use: affinity mask, further limited by a cgroup quota.
  [[nodiscard]] virtual Count usable_cpus() const = 0;
  // Whether our affinity mask leaves processors to others: it is less than the machine's, and less
  // than `shared`, if that is known.
  [[nodiscard]] virtual bool has_own_cpus(std::optional<int> shared) const = 0;
  // GPUs that a worker started with this environment would see.
  [[nodiscard]] virtual Count usable_gpus(const Environ& environ) const = 0;
  // Whether its GPUs are AMD's, before any variable.
  [[nodiscard]] virtual bool has_amd_gpus() const = 0;
  // Asks nvidia-smi, which takes a while, where there are some.
  [[nodiscard]] virtual MigSlices mig_slices() const = 0;
  // The CPUs and memory of each of `ranks` local ranks that are started with this environment.
  // Error: usage, as of bind_ranks.
  [[nodiscard]] virtual Result<NumaPlan> numa_plan(NumaPolicy policy,
                                                   int ranks,
                                                   const Environ& environ) const = 0;

  [[nodiscard]] virtual FileKind file_kind(const std::string& path) const = 0;
  [[nodiscard]] virtual Result<std::string> read_file(const std::string& path) const = 0;
  // Where names of files begin; empty: unknown.
  [[nodiscard]] virtual std::string working_folder() const = 0;
  // The path by which this program was started, links not followed. Empty: unknown.
  [[nodiscard]] virtual std::string own_path() const = 0;
  [[nodiscard]] virtual Result<std::vector<OwnAddress>> own_addresses() const = 0;
  // Whether a listener could be bound to it on all addresses, at this moment.
  [[nodiscard]] virtual bool is_port_free(std::uint16_t port) const = 0;
  // Our own standard input.
  [[nodiscard]] virtual bool stdin_is_terminal() const = 0;
  // 32 random hexadecimal digits.
  [[nodiscard]] virtual std::string random_hex() const = 0;
};

}  // namespace muster
