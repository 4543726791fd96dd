// SPDX-License-Identifier: Apache-2.0
// Request: one operation as a rank called it, checked by the communicator; what every back end is
// given and the flight recorder keeps. Private to the library. Value type.
#pragma once

#include "base/time.hpp"
#include "collective/types.hpp"

#include <cstdint>
#include <string>

namespace muster::collective {

[[nodiscard]] inline bool is_transfer(Kind kind) {
  return kind == Kind::send || kind == Kind::recv;
}

// One operation as this rank called it, checked by the communicator: the counts fit, the pointers
// are there, root is a rank.
struct Request {
  Kind kind = Kind::barrier;
  Op op = Op::sum;
  DType dtype = DType::u8;
  // all_reduce, reduce, broadcast, send, recv: elements of the buffer. all_gather: of `in`.
  // reduce_scatter: of `out`. all_to_all: of one block.
  std::uint64_t count = 0;
  int root = -1;  // of reduce and broadcast; the other side of send and recv
  double scale = 1;
  const void* in = nullptr;  // broadcast and recv: null; send: the data
  void* out = nullptr;       // reduce, not on the root: may be null
  int device = kHost;
  void* stream = nullptr;
  std::uint64_t seq = 0;  // send and recv have numbers of their own pair
  TimePoint deadline = {};

  // Kind, operation and type in one word, as ranks compare them.
  [[nodiscard]] std::uint32_t signature() const {
    return static_cast<std::uint32_t>(kind) | static_cast<std::uint32_t>(op) << 8 |
           static_cast<std::uint32_t>(dtype) << 16;
  }

  void set_signature(std::uint32_t signature) {
    kind = static_cast<Kind>(signature & 0xff);
    op = static_cast<Op>(signature >> 8 & 0xff);
    dtype = static_cast<DType>(signature >> 16 & 0xff);
  }

  // "all_reduce #119 sum f32[6553600]".
  [[nodiscard]] std::string describe() const;
  bool operator==(const Request&) const = default;
};

}  // namespace muster::collective
