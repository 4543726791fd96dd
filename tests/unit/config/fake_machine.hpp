// SPDX-License-Identifier: Apache-2.0
// A machine for tests: 8 CPUs, 4 GPUs, and only the files that a test adds.
#pragma once

#include "machine/machine.hpp"

#include <map>
#include <set>

namespace muster {

struct FakeMachine : Machine {
  Count cpus{8, "8 CPUs by affinity"};
  Count gpus{4, "4 NVIDIA GPUs in /dev"};
  std::string started_as = "/usr/bin/muster";
  std::map<std::string, FileKind> kinds{{"/usr/bin/python3", FileKind::executable},
                                        {"/usr/bin/true", FileKind::executable},
                                        {"train.py", FileKind::plain},
                                        {"./solver", FileKind::executable}};
  std::map<std::string, std::string> texts;
  std::vector<OwnAddress> addresses{{"lo", "127.0.0.1"}, {"eth0", "10.0.0.7"}};
  std::set<std::uint16_t> taken_ports;
  std::string name = "node1";
  bool amd = false;
  bool own_cpus = true;
  bool terminal = false;
  std::string folder;
  MigSlices slices;
  Result<NumaPlan> numa = NumaPlan{};
  mutable NumaRequest asked{};
  mutable int questions = 0;  // number of queries about devices

  [[nodiscard]] std::string hostname() const override { return name; }

  [[nodiscard]] Count usable_cpus() const override {
    ++questions;
    return cpus;
  }

  [[nodiscard]] Count usable_gpus(const Environ&) const override {
    ++questions;
    return gpus;
  }

  [[nodiscard]] bool has_own_cpus(std::optional<int> shared) const override {
    return own_cpus && (!shared || cpus.count < *shared);
  }

  [[nodiscard]] std::string working_folder() const override { return folder; }

  [[nodiscard]] bool has_amd_gpus() const override { return amd; }

  [[nodiscard]] MigSlices mig_slices() const override {
    ++questions;
    return slices;
  }

  [[nodiscard]] Result<NumaPlan> numa_plan(NumaPolicy policy,
                                           int ranks,
                                           const Environ&) const override {
    ++questions;
    asked = {policy, ranks, {}, {}, {}};
    return numa;
  }

  [[nodiscard]] FileKind file_kind(const std::string& path) const override {
    const auto found = kinds.find(path);
    return found == kinds.end() ? FileKind::missing : found->second;
  }

  [[nodiscard]] Result<std::string> read_file(const std::string& path) const override {
    const auto found = texts.find(path);
    return found == texts.end() ? failure(Errc::not_found, path + ": No such file or directory")
                                : Result<std::string>(found->second);
  }

  [[nodiscard]] std::string own_path() const override { return started_as; }

  [[nodiscard]] Result<std::vector<OwnAddress>> own_addresses() const override { return addresses; }

  [[nodiscard]] bool is_port_free(std::uint16_t port) const override {
    return !taken_ports.contains(port);
  }

  [[nodiscard]] bool stdin_is_terminal() const override { return terminal; }

  [[nodiscard]] std::string random_hex() const override {
    return "0123456789abcdef0123456789abcdef";
  }
};

}  // namespace muster
