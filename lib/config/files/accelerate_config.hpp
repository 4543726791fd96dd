// SPDX-License-Identifier: Apache-2.0
// Parses the file of --accelerate-config, written by `accelerate config` as YAML or JSON, into
// muster options and variables for the workers. The caller reads the text, which is untrusted.
// Pure.
#pragma once

#include "base/error.hpp"
#include "config/options/settings.hpp"

#include <map>
#include <string>
#include <string_view>

namespace muster {

struct AccelerateConfig {
  std::map<OptionId, std::string> values;        // as typed on a command line
  std::map<std::string, std::string> variables;  // for the workers

  friend bool operator==(const AccelerateConfig&, const AccelerateConfig&) = default;
};

// num_processes is the total number of workers and must be divisible by the number of nodes. Errors
// (usage) contain `path`, the line, the key and how to fix the problem. Features that need
// Accelerate's own launcher (DeepSpeed, FSDP, Megatron, TPUs, SageMaker, mpirun) are rejected, not
// ignored.
[[nodiscard]] Result<AccelerateConfig> parse_accelerate_config(const std::string& text,
                                                               std::string_view path);

}  // namespace muster
