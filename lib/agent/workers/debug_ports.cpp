// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/debug_ports.hpp"

#include "plan/process_specs.hpp"

#include <utility>

namespace muster {
namespace {

// The usual port, which need not be entered in an IDE for each run. Another job may use it.
Result<HeldPort> take_debug_port(int local_rank) {
  const auto usual = static_cast<std::uint16_t>(kDebugPort + local_rank);
  auto port = HeldPort::take({usual, usual});
  return port ? std::move(port) : HeldPort::take({});
}

}  // namespace

Result<std::map<int, std::uint16_t>> DebugPorts::for_round(const Assignment& assignment) {
  std::map<int, std::uint16_t> out;
  for (const int local_rank : debugged_ranks(config_, assignment)) {
    if (!held_.contains(local_rank)) {
      auto port = take_debug_port(local_rank);
      if (!port) {
        return std::unexpected(port.error().during("--debug"));
      }
      held_.emplace(local_rank, std::move(*port));
    }
    out[local_rank] = held_.at(local_rank).number();
  }
  return out;
}

}  // namespace muster
