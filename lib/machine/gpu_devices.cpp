// SPDX-License-Identifier: Apache-2.0
#include "machine/gpu_devices.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"
#include "machine/text_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fcntl.h>

namespace muster {
namespace {

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  std::filesystem::directory_iterator entry(folder, problem);
  while (!problem && entry != std::filesystem::directory_iterator{}) {
    names.push_back(entry->path().filename().string());
    entry.increment(problem);
  }
  std::ranges::sort(names);
  return names;
}

// N in "nvidiaN"; none for other names, such as "nvidiactl" and "nvidia-uvm".
std::optional<std::int64_t> minor_of(std::string_view name) {
  constexpr std::string_view kBegin = "nvidia";
  const bool is_node = name.starts_with(kBegin) && name.size() > kBegin.size() &&
                       name.find_first_not_of("0123456789", kBegin.size()) == name.npos;
  return is_node ? parse_int(name.substr(kBegin.size())) : std::nullopt;
}

// The value of "Name:   value" in one of the driver's files.
std::string field_of(const std::string& text, std::string_view name) {
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(name)) {
      return std::string(trim(std::string_view(line).substr(name.size())));
    }
  }
  return "";
}

// A scheduler's device cgroup may deny open() on an existing device file; access() does not detect
// this.
bool can_be_opened(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)).get() >= 0;
}

struct NvidiaCard {
  Gpu gpu;
  std::optional<std::int64_t> minor;  // N in /dev/nvidiaN
};

// The GPUs that the driver lists. In a container, the list may include GPUs that this process is
// not allowed to open.
std::vector<NvidiaCard> nvidia_cards(const std::string& root) {
  std::vector<NvidiaCard> cards;
  const std::string driver = root + "/proc/driver/nvidia/gpus/";
  for (const std::string& name : names_in(driver)) {
    const std::string text = read_text_file(driver + name + "/information").value_or("");
    const std::string uuid = field_of(text, "GPU UUID:");
    const bool whole = uuid.starts_with("GPU-") && uuid.find('?') == std::string::npos;
    if (field_of(text, "GPU Excluded:") != "Yes") {
      cards.push_back({{name, whole ? uuid : "", field_of(text, "Model:")},
                       parse_int(field_of(text, "Device Minor:"))});
    }
  }
  return cards;
}

// Minor numbers of the device files that can be opened.
std::vector<std::int64_t> open_minors(const std::string& root) {
  std::vector<std::int64_t> minors;
  for (const std::string& name : names_in(root + "/dev")) {
    const auto minor = minor_of(name);
    if (minor && can_be_opened(fmt::format("{}/dev/{}", root, name))) {
      minors.push_back(*minor);
    }
  }
  return minors;
}

// CUDA treats each compute instance as a slice: .../gpu0/mig/gi1/ci0.
int slices_of(const std::string& root, std::int64_t minor) {
  const std::string folder =
      fmt::format("{}/proc/driver/nvidia/capabilities/gpu{}/mig/", root, minor);
  int slices = 0;
  for (const std::string& instance : names_in(folder)) {
    if (instance.starts_with("gi")) {
      slices += static_cast<int>(
          std::ranges::count_if(names_in(folder + instance),
                                [](const std::string& name) { return name.starts_with("ci"); }));
    }
  }
  return slices;
}

void find_slices(const std::string& root,
                 const std::vector<std::int64_t>& minors,
                 GpuDevices& devices) {
  for (const std::int64_t minor : minors) {
    const int slices = slices_of(root, minor);
    devices.mig_slices += slices;
    devices.mig_gpus += slices > 0 ? 1 : 0;
  }
}

std::vector<Gpu> find_nvidia(const std::string& root, const std::vector<std::int64_t>& minors) {
  const std::vector<NvidiaCard> cards = nvidia_cards(root);
  const bool numbered =
      std::ranges::all_of(cards, [](const NvidiaCard& card) { return card.minor.has_value(); });
  std::vector<Gpu> out;
  for (const NvidiaCard& card : cards) {
    const bool open = !numbered || std::ranges::find(minors, *card.minor) != minors.end();
    if (open && out.size() < minors.size()) {
      out.push_back(card.gpu);
    }
  }
  if (cards.empty()) {
    out.resize(minors.size());
  }
  return out;
}

std::string amd_address(const std::string& properties) {
  const auto domain = parse_int(field_of(properties, "domain "));
  const auto place = parse_int(field_of(properties, "location_id "));
  if (!place || *place < 0 || *place > 0xffff) {
    return "";
  }
  const auto bits = static_cast<unsigned>(*place);  // bus, device and function
  const auto part = static_cast<unsigned>(std::clamp<std::int64_t>(domain.value_or(0), 0, 0xffff));
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", part, bits >> 8U, bits >> 3U & 31U, bits & 7U);
}

// "GPU-" and the ID in hexadecimal, as printed by rocminfo and accepted in ROCR_VISIBLE_DEVICES.
// The file contains the ID as an unsigned 64-bit decimal number.
std::string amd_uuid(const std::string& properties) {
  std::uint64_t id = 0;
  for (const char c : field_of(properties, "unique_id ")) {
    if (c < '0' || c > '9') {
      return "";
    }
    id = id * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return id == 0 ? "" : fmt::format("GPU-{:016x}", id);
}

std::vector<Gpu> find_amd(const std::string& root) {
  std::vector<std::int64_t> nodes;
  const std::string folder = root + "/sys/class/kfd/kfd/topology/nodes/";
  for (const std::string& name : names_in(folder)) {
    if (const auto node = parse_int(name)) {
      nodes.push_back(*node);
    }
  }
  std::ranges::sort(nodes);  // numerically, so that 10 comes after 9
  std::vector<Gpu> out;
  for (const std::int64_t node : nodes) {
    const auto text = read_text_file(fmt::format("{}{}/properties", folder, node)).value_or("");
    if (parse_int(field_of(text, "simd_count ")).value_or(0) > 0) {
      out.push_back({amd_address(text), amd_uuid(text), ""});
    }
  }
  return out;
}

}  // namespace

GpuDevices find_gpus(const std::string& root) {
  GpuDevices devices;
  const std::vector<std::int64_t> minors = open_minors(root);
  devices.nvidia = find_nvidia(root, minors);
  devices.amd = find_amd(root);
  find_slices(root, minors, devices);
  devices.is_hidden =
      devices.nvidia.empty() && devices.amd.empty() && std::filesystem::exists(root + "/dev/dxg");
  return devices;
}

bool has_slices(const std::string& root) {
  const auto gpus = names_in(root + "/proc/driver/nvidia/capabilities");
  return std::ranges::any_of(gpus, [&](const std::string& name) {
    constexpr std::string_view kBegin = "gpu";
    const auto minor = name.starts_with(kBegin)
                           ? parse_int(std::string_view(name).substr(kBegin.size()))
                           : std::nullopt;
    return minor && slices_of(root, *minor) > 0;
  });
}

bool has_only_amd_gpus(const std::string& root) {
  return nvidia_cards(root).empty() && !find_amd(root).empty();
}

}  // namespace muster
