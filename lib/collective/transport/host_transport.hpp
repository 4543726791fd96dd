// SPDX-License-Identifier: Apache-2.0
// HostTransport: a back end for memory of the host. start() performs a collective operation before
// it returns; sends and receives are Transfers, of which several may be under way at once.
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

  // As far as it goes now, without waiting.
  [[nodiscard]] virtual Result<Step> step() = 0;
};

class HostTransport : public Transport {
 public:
  [[nodiscard]] virtual Result<std::unique_ptr<Transfer>> begin(const Request& request) = 0;

  // The last operation that was started found all others there: it took no longer than a look at
  // the clock is worth, a microsecond or so.
  [[nodiscard]] virtual bool prompt() const { return false; }

  // Waits at most until then for all other ranks to call the operation that start() is given next.
  // False: they did not, or this back end does not wait; start() may be called all the same.
  [[nodiscard]] virtual bool others_come(const Request& /*next*/, TimePoint /*until*/) {
    return false;
  }

  // After all transfers were stuck, `round` times in a row: gives way to others, the longer the
  // more rounds it were, but never for long.
  virtual void rest(int round) = 0;
  // What ends a transfer that is stuck.
  [[nodiscard]] virtual std::optional<Error> look(const Request& request) = 0;
  // Ends a rest() in another thread.
  virtual void wake() = 0;
};

// Until it is done, in this thread.
[[nodiscard]] Result<void> finish(HostTransport& transport,
                                  Transfer& transfer,
                                  const Request& request);

}  // namespace muster::collective
