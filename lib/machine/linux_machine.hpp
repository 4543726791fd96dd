// SPDX-License-Identifier: Apache-2.0
// LinuxMachine: Machine's answers from /proc, /sys and /dev of this computer. The roots of those
// trees are an argument, so that tests can put other computers below a folder.
#pragma once

#include "machine/machine.hpp"

#include <functional>
#include <string>

namespace muster {

class LinuxMachine final : public Machine {
 public:
  // What "nvidia-smi -L" prints; empty where it cannot be run.
  using AskSmi = std::function<std::string()>;

  // `root` is put before "/proc", "/sys" and "/dev"; files of the user are never below it.
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
