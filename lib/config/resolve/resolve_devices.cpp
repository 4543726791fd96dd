// SPDX-License-Identifier: Apache-2.0
// --devices: sets the visibility variable for all workers, as if the user had exported it.
#include "base/text.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace muster {
namespace {

constexpr std::size_t kDevicesMax = 1024;
constexpr std::size_t kNameMax = 128;  // the longest MIG names have about 60 characters
constexpr std::string_view kRule =
    "must be GPU indices or UUIDs (GPU-..., MIG-...), separated by commas, without duplicates";

bool is_uuid(std::string_view name) {
  const auto allowed = [](char c) {
    return ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '-' ||
           c == '/';
  };
  return (name.starts_with("GPU-") || name.starts_with("MIG-")) && name.size() <= kNameMax &&
         std::ranges::all_of(name, allowed);
}

// The index among the visible GPUs. None if the entry is not a plain number.
std::optional<std::size_t> place_of(std::string_view entry) {
  const bool digits = !entry.empty() && entry.find_first_not_of("0123456789") == entry.npos;
  const auto number = digits ? parse_int(entry) : std::nullopt;
  return number ? std::optional(static_cast<std::size_t>(*number)) : std::nullopt;
}

// The visibility variable that is already set. Indices refer to its entries, because programs
// number only the GPUs that they see.
std::optional<std::string> inherited_list(const Environ& environ, std::string& name) {
  for (const std::string_view variable : {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const auto list = environ.get(variable);
    if (list && !trim(*list).empty()) {
      name = variable;
      return std::string(*list);
    }
  }
  return std::nullopt;
}

struct Choice {
  const Layers& layers;
  std::vector<std::string> visible;  // entries to choose from; if empty, indices are physical
  std::string visible_by;
  int present = 0;  // number of GPUs; if 0 (unknown), indices are not checked

  [[nodiscard]] Result<std::string> entry(const std::string& typed) const;
};

Result<std::string> Choice::entry(const std::string& typed) const {
  if (is_uuid(typed)) {
    return typed;
  }
  const auto place = place_of(typed);
  if (!place) {
    return layers.refuse(OptionId::devices, kRule);
  }
  if (!visible.empty()) {
    return *place < visible.size()
               ? Result<std::string>(std::string(trim(visible[*place])))
               : layers.refuse(
                     OptionId::devices,
                     fmt::format("GPU {} does not exist: {} GPUs are visible through {}={}, "
                                 "and indices refer to that list, from 0",
                                 typed,
                                 visible.size(),
                                 visible_by,
                                 join(visible, ",")));
  }
  if (present > 0 && *place >= static_cast<std::size_t>(present)) {
    return layers.refuse(
        OptionId::devices,
        fmt::format("GPU {} does not exist: this node has {}, numbered from 0", typed, present));
  }
  return std::to_string(*place);
}

Result<std::vector<std::string>> chosen(const Choice& choice) {
  std::vector<std::string> out;
  const auto typed = split(choice.layers.text(OptionId::devices), ',');
  if (typed.size() > kDevicesMax) {
    return choice.layers.refuse(OptionId::devices, kRule);
  }
  for (const std::string& word : typed) {
    auto entry = choice.entry(std::string(trim(word)));
    MUSTER_RETURN_IF_ERROR(entry);
    if (std::ranges::find(out, *entry) != out.end()) {
      return choice.layers.refuse(OptionId::devices, kRule);
    }
    out.push_back(std::move(*entry));
  }
  return out;
}

// A process can use only one MIG slice and must name it, so each worker gets its own slice.
Result<void> name_slices(const Machine& machine, const Layers& layers, Environ& environ) {
  if (environ.get("CUDA_VISIBLE_DEVICES") || environ.get("HIP_VISIBLE_DEVICES")) {
    return {};
  }
  const MigSlices slices = machine.mig_slices();
  if (slices.count > 0 && slices.names.empty()) {
    return layers.refuse(OptionId::virtual_local_rank,
                         fmt::format("cannot get the names of the {} MIG slices: nvidia-smi "
                                     "failed; specify --devices=MIG-...",
                                     slices.count));
  }
  if (slices.count > 0) {
    environ.set("CUDA_VISIBLE_DEVICES", join(slices.names, ","));
  }
  return {};
}

}  // namespace

Result<void> resolve_devices(const Machine& machine, const Layers& layers, Resolved& out) {
  if (!layers.is_given(OptionId::devices)) {
    return layers.is_on(OptionId::virtual_local_rank) ? name_slices(machine, layers, out.environ)
                                                      : Result<void>{};
  }
  Choice choice{layers, {}, {}, 0};
  if (const auto list = inherited_list(out.environ, choice.visible_by)) {
    choice.visible = split(*list, ',');
  } else {
    const Count seen = machine.usable_gpus(out.environ);
    choice.present = seen.count;
    if (seen.count == 0) {
      out.warnings.push_back(
          fmt::format("--devices={}: {}", layers.text(OptionId::devices), seen.reason));
    }
  }
  auto entries = chosen(choice);
  MUSTER_RETURN_IF_ERROR(entries);
  out.config.devices = join(*entries, ",");
  out.environ.set("CUDA_VISIBLE_DEVICES", out.config.devices);
  // ROCm accepts CUDA's variable as an alias only if ROCm's own variable is not set.
  if (choice.visible_by == "HIP_VISIBLE_DEVICES" || machine.has_amd_gpus()) {
    out.environ.set("HIP_VISIBLE_DEVICES", out.config.devices);
  }
  return {};
}

}  // namespace muster
