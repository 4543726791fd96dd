// SPDX-License-Identifier: Apache-2.0
// LinuxMachine: implements Machine with /proc, /sys and /dev of this host. The root of those trees
// is a parameter, so that tests can simulate other hosts in a directory.
#pragma once

#include "machine/machine.hpp"

#include <functional>
#include <string>

namespace muster {

class LinuxMachine final : public Machine {
 public:
  // Returns the output of "nvidia-smi -L"; empty if it cannot be run.
  using AskSmi = std::function<std::string()>;

  // `root` is prepended to "/proc", "/sys" and "/dev", but not to the user's files.
  explicit LinuxMachine(std::string root = "", AskSmi ask_smi = nullptr);

  [[nodiscard]] std::string hostname() const override;
  [[nodiscard]] Count usable_cpus() const override;
  [[nodiscard]] bool has_own_cpus(std::optional<int> shared) const override;
  [[nodiscard]] Count usable_gpus(const Environ& environ) const override;
  [[nodiscard]] bool has_amd_gpus() const override;
  [[nodiscard]] MigSlices mig_slices() const override;
  [[nodiscard]] Result<NumaPlan> numa_plan(NumaPolicy policy,
                                           int ranks,
                                           const Environ& environ) const override;
  [[nodiscard]] FileKind file_kind(const std::string& path) const override;
  [[nodiscard]] Result<std::string> read_file(const std::string& path) const override;
  [[nodiscard]] std::string working_folder() const override;
  [[nodiscard]] std::string own_path() const override;
  [[nodiscard]] Result<std::vector<OwnAddress>> own_addresses() const override;
  [[nodiscard]] bool is_port_free(std::uint16_t port) const override;
  [[nodiscard]] bool stdin_is_terminal() const override;
  [[nodiscard]] std::string random_hex() const override;

 private:
  std::string root_;
  AskSmi ask_smi_;
};

}  // namespace muster
