// SPDX-License-Identifier: Apache-2.0
#include "collective/transport/host_transport.hpp"

namespace muster::collective {

Result<Transfer::Step> Transfer::step_to_end() {
  auto last = step();
  while (last && *last == Step::moved) {
    last = step();
  }
  return last;
}

Result<void> finish(HostTransport& transport, Transfer& transfer, const Request& request) {
  constexpr int kStepsPerLook = 64;
  int stuck = 0;
  while (true) {
    const auto step = transfer.step();
    MUSTER_RETURN_IF_ERROR(step);
    if (*step == Transfer::Step::done) {
      return {};
    }
    stuck = *step == Transfer::Step::moved ? 0 : stuck + 1;
    if (stuck > 0 && stuck % kStepsPerLook == 0) {
      if (auto error = transport.look(request)) {
        const auto last = transfer.step_to_end();
        const bool done = last && *last == Transfer::Step::done;
        return done ? Result<void>() : std::unexpected(std::move(*error));
      }
      transport.rest(stuck / kStepsPerLook);
    }
  }
}

}  // namespace muster::collective
