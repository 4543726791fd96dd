// SPDX-License-Identifier: Apache-2.0
// Order: which uses of device memory are ordered by streams, events and waits of the host, and
// which are not, tracked with vector clocks. Detects the reuse of a buffer before its event even if
// the timing of this run was lucky. The host counts as one thread: if one of its threads has waited
// for something, all threads know about it. Pure; guarded by the World's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::fake {

// How much of each stream (by its number) happened before a point.
using Clock = std::vector<std::uint64_t>;

struct Span {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool write = false;
};

class Order {
 public:
  [[nodiscard]] int add_stream();
  // A new operation, ordered after everything that this stream has done or waited for and that the
  // host knows.
  void enqueue(int stream);

  [[nodiscard]] Clock at(int stream) const { return streams_[static_cast<std::size_t>(stream)]; }

  void stream_waits(int stream, const Clock& clock);
  void host_knows(const Clock& clock);

  // The stream's newest operation uses memory. Returns an error if another use is not ordered
  // before it.
  [[nodiscard]] std::optional<std::string> touch(int stream, Span span, const std::string& what);
  // The same when the host frees memory.
  [[nodiscard]] std::optional<std::string> release(Span span);

 private:
  struct Use {
    Span span;
    int stream;
    std::uint64_t count;
    std::string what;
  };

  [[nodiscard]] static bool overlap(const Span& a, const Span& b);
  [[nodiscard]] static bool known(const Clock& clock, const Use& use);
  void forget_known();

  std::vector<Clock> streams_;
  Clock host_;
  std::vector<Use> uses_;  // uses that may not have completed, as far as the host knows
};

}  // namespace muster::fake
