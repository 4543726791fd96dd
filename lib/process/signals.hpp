// SPDX-License-Identifier: Apache-2.0
// The signal state that this process was started with: what its workers must get back. Written
// once by block_signals (guard.hpp), read by spawn and guard. Value.
#pragma once

#include <csignal>

namespace muster {

struct InheritedSignals {
  sigset_t mask{};     // blocked when we were started
  sigset_t ignored{};  // ignored when we were started: stays so, for us and for the workers
};

// Before block_signals was called: the state of this moment.
[[nodiscard]] const InheritedSignals& inherited_signals();

}  // namespace muster
