// SPDX-License-Identifier: Apache-2.0
// A machine's /sys as texts by path, generated from a few lines that describe its CPUs. For the
// tests of topology and binding.
#pragma once

#include "base/cpu_set.hpp"
#include "machine/cpu_count.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::testing {

class SysfsTree {
 public:
  // A node with its online CPUs; "" for a node with only memory.
  SysfsTree& node(int id, const std::string& cpus) {
    files_["/sys/devices/system/node/node" + std::to_string(id) + "/cpulist"] = cpus + "\n";
    nodes_.add(id);
    memory_.add(id);
    return *this;
  }

  SysfsTree& without_memory(int id) {
    CpuSet one;
    one.add(id);
    memory_ -= one;
    return *this;
  }

  SysfsTree& distances(int id, const std::string& text) {
    files_["/sys/devices/system/node/node" + std::to_string(id) + "/distance"] = text + "\n";
    return *this;
  }

  SysfsTree& socket(int id, const std::string& cpus) {
    return each(cpus, "topology/physical_package_id", [&](int) { return std::to_string(id); });
  }

  // Each CPU in `cpus` is a core, whose `threads` CPUs have the distance `stride`.
  SysfsTree& cores(const std::string& cpus, int stride, int threads = 2) {
    for (const int first : CpuSet::parse(cpus).value().numbers()) {
      CpuSet core;
      for (int i = 0; i < threads; ++i) {
        core.add(first + i * stride);
      }
      each(core.describe(), "topology/thread_siblings_list", [&](int) { return core.describe(); });
    }
    return *this;
  }

  // As in the kernel: two level-1 caches, one level-2 cache, then the shared one.
  SysfsTree& shared_cache(const std::string& cpus) {
    int index = 0;
    for (const auto& [level, type] : {std::pair("1", "Data"),
                                      std::pair("1", "Instruction"),
                                      std::pair("2", "Unified"),
                                      std::pair("3", "Unified")}) {
      const std::string folder = "cache/index" + std::to_string(index++) + "/";
      const bool last = std::string_view(level) == "3";
      each(cpus, folder + "level", [&](int) { return level; });
      each(cpus, folder + "type", [&](int) { return type; });
      each(cpus, folder + "shared_cpu_list", [&](int cpu) {
        return last ? cpus : std::to_string(cpu);
      });
    }
    return *this;
  }

  SysfsTree& gpu(const std::string& address, int node) {
    files_["/sys/bus/pci/devices/" + address + "/numa_node"] = std::to_string(node) + "\n";
    return *this;
  }

  SysfsTree& file(const std::string& path, const std::string& text) {
    files_[path] = text;
    return *this;
  }

  [[nodiscard]] TextReader reader() const {
    auto files = files_;
    if (!nodes_.empty()) {
      files.emplace("/sys/devices/system/node/online", nodes_.describe() + "\n");
      files.emplace("/sys/devices/system/node/has_memory", memory_.describe() + "\n");
    }
    return [files](const std::string& path) -> std::optional<std::string> {
      const auto found = files.find(path);
      return found == files.end() ? std::nullopt : std::optional(found->second);
    };
  }

 private:
  template <class Text>
  SysfsTree& each(const std::string& cpus, const std::string& name, const Text& text) {
    for (const int cpu : CpuSet::parse(cpus).value().numbers()) {
      files_["/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + name] =
          std::string(text(cpu)) + "\n";
    }
    return *this;
  }

  std::map<std::string, std::string> files_;
  CpuSet nodes_;
  CpuSet memory_;
};

}  // namespace muster::testing
