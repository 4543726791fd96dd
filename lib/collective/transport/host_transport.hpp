// SPDX-License-Identifier: Apache-2.0
// HostTransport: a backend for host memory. start() completes a collective operation before it
// returns. Sends and receives are Transfers, and several of them may be in progress at once.
#pragma once

#include "collective/transport/transport.hpp"

#include <memory>
#include <span>

namespace muster::collective {

// A send or a receive. Resource type; the transport must outlive it.
class Transfer {
 public:
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  virtual ~Transfer() = default;

  enum class Step { done, moved, stuck };

  // Makes as much progress as it can without waiting.
  [[nodiscard]] virtual Result<Step> step() = 0;

  // Calls step() until the transfer is done or stuck. Use it after look() returns an error, because
  // the peer may have completed its part between the last step and the error.
  [[nodiscard]] Result<Step> step_to_end();
};

class HostTransport : public Transport {
 public:
  [[nodiscard]] virtual Result<std::unique_ptr<Transfer>> begin(const Request& request) = 0;

  // Whether the last operation found all other ranks ready. If so, it took about a microsecond,
  // and reading the clock would not be worthwhile.
  [[nodiscard]] virtual bool prompt() const { return false; }

  // Waits for all other ranks to call the operation that start() receives next, but not beyond
  // `until`. Returns false if a rank has not called the operation, or if this backend does not
  // wait. In both cases start() may be called.
  [[nodiscard]] virtual bool others_come(const Request& /*next*/, TimePoint /*until*/) {
    return false;
  }

  // Backs off after `round` consecutive rounds in which no transfer made progress. The delay grows
  // with `round` but stays short.
  virtual void rest(int round) = 0;
  // Checks whether an error ends a stuck transfer.
  [[nodiscard]] virtual std::optional<Error> look(const Request& request) = 0;
  // Interrupts a rest() in another thread.
  virtual void wake() = 0;
};

// Runs the transfer to completion in this thread.
[[nodiscard]] Result<void> finish(HostTransport& transport,
                                  Transfer& transfer,
                                  const Request& request);

}  // namespace muster::collective
