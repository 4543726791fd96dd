// SPDX-License-Identifier: Apache-2.0
// Request: one operation as a rank called it, validated by the communicator. The input of every
// backend and of the flight recorder. Private to the library. Value type.
#pragma once

#include "base/time.hpp"
#include "collective/types.hpp"

#include <cstdint>
#include <string>

namespace muster::collective {

[[nodiscard]] inline bool is_transfer(Kind kind) {
  return kind == Kind::send || kind == Kind::recv;
}

// One operation as this rank called it. The communicator has checked counts, pointers and root.
struct Request {
  Kind kind = Kind::barrier;
  Op op = Op::sum;
  DType dtype = DType::u8;
  // Elements of the buffer (all_reduce, reduce, broadcast, send, recv), of `in` (all_gather), of
  // `out` (reduce_scatter), or of one block (all_to_all).
  std::uint64_t count = 0;
  int root = -1;  // for reduce and broadcast; the peer for send and recv
  double scale = 1;
  const void* in = nullptr;  // null for broadcast and recv; the data for send
  void* out = nullptr;       // may be null for reduce on non-root ranks
  int device = kHost;
  void* stream = nullptr;
  std::uint64_t seq = 0;  // send and recv are numbered per pair
  TimePoint deadline = {};

  // Kind, operation and type packed into one word, for comparisons between ranks.
  [[nodiscard]] std::uint32_t signature() const {
    return static_cast<std::uint32_t>(kind) | static_cast<std::uint32_t>(op) << 8 |
           static_cast<std::uint32_t>(dtype) << 16;
  }

  void set_signature(std::uint32_t signature) {
    kind = static_cast<Kind>(signature & 0xff);
    op = static_cast<Op>(signature >> 8 & 0xff);
    dtype = static_cast<DType>(signature >> 16 & 0xff);
  }

  // Example: "all_reduce #119 sum f32[6553600]".
  [[nodiscard]] std::string describe() const;
  bool operator==(const Request&) const = default;
};

}  // namespace muster::collective
