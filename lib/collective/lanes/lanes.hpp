// SPDX-License-Identifier: Apache-2.0
// Lanes: ordered byte streams between this rank and every other one, which LaneCollectives builds
// all collective operations on. A transport over another network is one class that implements this,
// in a folder of its own: tcp/ does it over sockets. One thread at a time, but for failure() and
// report().
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

  // Queues bytes, at least one, for or from another rank. Each direction of each pair is one stream
  // of bytes in the order of the posts; where a post ends is not seen by the other side. The memory
  // stays untouched by the caller until its bytes have moved. Gives the position of the stream
  // behind these bytes: what sent() or received() reaches when they have moved.
  virtual std::uint64_t post_send(int rank, const void* data, std::size_t bytes) = 0;
  virtual std::uint64_t post_recv(int rank, void* data, std::size_t bytes) = 0;

  // Bytes moved so far, since the lanes were made.
  [[nodiscard]] virtual std::uint64_t sent(int rank) const = 0;
  [[nodiscard]] virtual std::uint64_t received(int rank) const = 0;

  // Moves what can be moved now, without waiting; whether anything did. Error: why a stream ended.
  [[nodiscard]] virtual Result<bool> progress(const Step& step) = 0;

  // Between calls of progress() that moved nothing, `round` times in a row: what ends the step,
  // which waits for the rank `missing` (-1: for nobody); else gives way to others, by yielding at
  // first, later by sleeping for at most some ms, or until something can be moved.
  [[nodiscard]] virtual std::optional<Error> wait(const Step& step, int missing, int round) = 0;

  // The rank has called this operation, as we have: for the text of a timeout.
  virtual void seen(int rank, const Request& operation) = 0;
};

}  // namespace muster::collective
