// SPDX-License-Identifier: Apache-2.0
// Lanes: ordered byte streams between this rank and every other rank, the basis of LaneCollectives.
// To support another network, implement this class in a separate folder, as tcp/ does for sockets.
// One thread at a time, except for failure() and report().
#pragma once

#include "collective/transport/peer_watch.hpp"
#include "collective/transport/step.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace muster::collective {

class Lanes : public PeerWatch {
 public:
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // Queues bytes (at least one) to or from another rank. Each direction of a pair is one ordered
  // byte stream; the peer does not see the boundaries between posts. The caller must leave the
  // memory untouched until its bytes have moved. Returns the stream position after these bytes;
  // sent() or received() reaches this position once they have moved.
  virtual std::uint64_t post_send(int rank, const void* data, std::size_t bytes) = 0;
  virtual std::uint64_t post_recv(int rank, void* data, std::size_t bytes) = 0;

  // Bytes moved since the lanes were created.
  [[nodiscard]] virtual std::uint64_t sent(int rank) const = 0;
  [[nodiscard]] virtual std::uint64_t received(int rank) const = 0;

  // Moves as much as possible without waiting; returns whether any bytes moved. Error: the reason
  // why a stream closed.
  [[nodiscard]] virtual Result<bool> progress(const Step& step) = 0;

  // Call after each progress() call that moved no bytes; `round` is the number of such calls in a
  // row. Returns the error that ends the step, if any; the step is waiting for rank `missing` (-1:
  // no rank). Otherwise backs off: first yields, later sleeps for a few ms or until bytes can move.
  [[nodiscard]] virtual std::optional<Error> wait(const Step& step, int missing, int round) = 0;

  // Records that the rank called the same operation as we did, for timeout errors.
  virtual void seen(int rank, const Request& operation) = 0;
};

}  // namespace muster::collective
