// SPDX-License-Identifier: Apache-2.0
// LaneCollectives: operations among a group of ranks over their lanes. Each rank owns a slice of
// the data. The other ranks send their values of this slice to the owner, which combines them in
// rank order and sends the result back. This moves the same number of bytes as a ring, and the
// result is bitwise identical to a sum in rank order in a single process. Ranks, including
// Request::root, are indices in the group. The caller numbers the operations. One thread.
#pragma once

#include "collective/lanes/streams.hpp"

#include <utility>
#include <vector>

namespace muster::collective {

class LaneCollectives {
 public:
  LaneCollectives(Lanes& lanes, std::vector<int> members);

  // Completes the operation before it returns. Supports all kinds except send and recv.
  [[nodiscard]] Result<void> run(const Step& request);

 private:
  // Header that precedes the data of every operation.
  struct Head {
    std::uint64_t seq;
    std::uint32_t signature;
    std::int32_t root;
    std::uint64_t count;
    double scale;
    bool operator==(const Head&) const = default;
  };

  // A byte range of a buffer.
  struct Slice {
    std::size_t at;
    std::size_t bytes;
  };

  [[nodiscard]] Result<void> meet(const Step& request);
  [[nodiscard]] Result<void> compare(const Step& step);
  [[nodiscard]] Error disagreement(const Request& request, std::size_t other) const;
  [[nodiscard]] Result<void> run_copies(const Step& request);
  void queue_copies(const Step& request, const char* in);
  [[nodiscard]] Result<void> run_small(const Step& request);
  [[nodiscard]] Result<void> run_sliced(const Step& request);
  [[nodiscard]] Slice slice(const Step& request, std::size_t round, std::size_t owner) const;
  [[nodiscard]] std::size_t rounds(const Step& request) const;
  void queue_round(const Step& request, std::size_t round);
  [[nodiscard]] Result<void> combine_round(const Step& request, std::size_t round);
  void queue_results(const Step& request, std::size_t round, const char* result);
  void combine(const Step& request, std::size_t count, void* out);
  [[nodiscard]] bool wants_result(const Step& request, std::size_t member) const;

  Streams streams_;
  std::size_t n_;
  std::size_t self_;
  Head mine_{};
  std::vector<Head> theirs_;
  std::vector<char> scratch_;  // data from other ranks, to be combined
  std::vector<const void*> sources_;
  std::vector<std::vector<std::uint64_t>> received_marks_;  // for two rounds: one mark per member
  std::vector<std::vector<std::uint64_t>> sent_marks_;
};

}  // namespace muster::collective
