// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace muster {

Result<void> resolve_debug(const Resolution& r) {
  constexpr std::string_view kNoWait = ",nowait";
  LaunchConfig& config = r.config();
  std::string_view text = trim(r.layers.text(OptionId::debug));
  if (text.empty()) {
    return {};
  }
  config.debug_waits = !text.ends_with(kNoWait);
  text.remove_suffix(config.debug_waits ? 0 : kNoWait.size());
  auto ranks = CpuSet::parse(text);
  if (!ranks || ranks->empty()) {
    return r.layers.refuse(
        OptionId::debug,
        fmt::format("must be ranks below {}, for example 0,8-15 or 0,nowait", CpuSet::kNumbersMax));
  }
  if (!many_nodes(config) && ranks->first() >= config.nproc) {
    return r.layers.refuse(OptionId::debug,
                           fmt::format("the last rank of this job is {}", config.nproc - 1));
  }
  if (config.program.kind == ProgramKind::executable) {
    return r.layers.refuse(OptionId::debug,
                           "needs a Python program. For other programs, attach with musterctl "
                           "debug --native");
  }
  config.debug_ranks = std::move(*ranks);
  return {};
}

}  // namespace muster
