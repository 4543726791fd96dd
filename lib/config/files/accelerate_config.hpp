// SPDX-License-Identifier: Apache-2.0
// The file of --accelerate-config: YAML or JSON as `accelerate config` writes it, as options of
// ours and variables for the workers. The text is read by the caller and may be anything. Pure.
#pragma once

#include "base/error.hpp"
#include "config/options/settings.hpp"

#include <map>
#include <string>
#include <string_view>

namespace muster {

struct AccelerateConfig {
  std::map<OptionId, std::string> values;        // as they would be typed
  std::map<std::string, std::string> variables;  // for the workers

  friend bool operator==(const AccelerateConfig&, const AccelerateConfig&) = default;
};

// num_processes counts the workers of all machines and must divide evenly among them. Errors
// (usage) name `path`, the line, the key, and what to do: what needs Accelerate's own launcher
// (DeepSpeed, FSDP, Megatron, TPUs, SageMaker, mpirun) is refused, never left out in silence.
[[nodiscard]] Result<AccelerateConfig> parse_accelerate_config(const std::string& text,
                                                               std::string_view path);

}  // namespace muster
