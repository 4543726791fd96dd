// SPDX-License-Identifier: Apache-2.0
#include "host/gpu_count.hpp"

#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

namespace muster {
namespace {

// The number at the start of an entry, as CUDA reads it: "1gpu2" is 1. None: no number, negative.
std::optional<int> leading_number(std::string_view entry) {
  if (entry.starts_with('+')) {
    entry.remove_prefix(1);
  }
  std::size_t digits = 0;
  while (digits < entry.size() && '0' <= entry[digits] && entry[digits] <= '9') {
    ++digits;
  }
  const auto number = parse_int(entry.substr(0, digits));
  if (digits == 0 || !number || *number > 1'000'000) {
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

int visible_by_number(const std::vector<std::string>& entries, int present) {
  std::vector<int> seen;
  for (const std::string& entry : entries) {
    const auto number = leading_number(trim(entry));
    if (!number) {
      break;
    }
    if (std::ranges::find(seen, *number) != seen.end()) {
      return 0;
    }
    seen.push_back(*number);
  }
  const auto absent = std::ranges::find_if(seen, [&](int number) { return number >= present; });
  return static_cast<int>(std::distance(seen.begin(), absent));
}

int visible_by_uuid(const std::vector<std::string>& entries,
                    int present,
                    const std::vector<std::string>& uuids) {
  std::set<std::string> seen;
  for (const std::string& entry : entries) {
    const std::string name(trim(entry));
    if (!name.starts_with("GPU-")) {
      break;
    }
    std::string whole = name;
    if (!uuids.empty()) {
      const auto matches = [&](const std::string& uuid) { return uuid.starts_with(name); };
      if (std::ranges::count_if(uuids, matches) != 1) {
        break;
      }
      whole = *std::ranges::find_if(uuids, matches);
    }
    if (!seen.insert(whole).second) {
      return 0;
    }
  }
  return std::min(present, static_cast<int>(seen.size()));
}

// The devices that are left after one variable; none set: all. Says so in `reason`.
int after(std::string_view name,
          const Environ& environ,
          int present,
          const std::vector<std::string>& uuids,
          std::string& reason) {
  const auto list = environ.get(name);
  if (!list || present == 0) {
    return present;
  }
  const int left = visible_count(*list, present, uuids);
  reason += fmt::format(", {} visible by {}", left, name);
  return left;
}

Count count_nvidia(const GpuDevices& devices, const Environ& environ) {
  // A container may list more than it may open, or have no such list at all.
  const bool both = devices.nvidia_proc > 0 && devices.nvidia_nodes > 0;
  const int present =
      both ? std::min(devices.nvidia_proc, devices.nvidia_nodes) : devices.nvidia_nodes;
  Count out{present, fmt::format("{} NVIDIA GPUs in /dev", present)};
  out.count = after("CUDA_VISIBLE_DEVICES", environ, present, devices.nvidia_uuids, out.reason);
  return out;
}

Count count_amd(const GpuDevices& devices, const Environ& environ) {
  Count out{devices.amd, fmt::format("{} AMD GPUs in /sys/class/kfd", devices.amd)};
  out.count = after("ROCR_VISIBLE_DEVICES", environ, out.count, {}, out.reason);
  // HIP's own variable counts among what the runtime left; CUDA's is its alias.
  const bool hip = environ.get("HIP_VISIBLE_DEVICES").has_value();
  out.count = after(
      hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", environ, out.count, {}, out.reason);
  return out;
}

}  // namespace

int visible_count(std::string_view list, int present, const std::vector<std::string>& uuids) {
  const auto entries = split(list, ',');
  const std::string_view first = trim(entries.front());
  if (first.starts_with("GPU-")) {
    return visible_by_uuid(entries, present, uuids);
  }
  if (first.starts_with("MIG-")) {
    return std::min(present, 1);  // CUDA gives a process one slice, however many are named
  }
  return visible_by_number(entries, present);
}

Count count_gpus(const GpuDevices& devices, const Environ& environ) {
  if (devices.nvidia_proc > 0 || devices.nvidia_nodes > 0) {
    return count_nvidia(devices, environ);
  }
  if (devices.amd > 0) {
    return count_amd(devices, environ);
  }
  return {0, "no GPU in /dev/nvidia* or /sys/class/kfd"};
}

}  // namespace muster
