// SPDX-License-Identifier: Apache-2.0
// BlockedSignals: blocks all signals in the calling thread for the lifetime of the object. Used
// while starting muster's helper threads: they inherit the mask, so signals are handled only by the
// application's threads. RAII.
#pragma once

#include <csignal>

namespace muster {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace muster
