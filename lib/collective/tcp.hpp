// SPDX-License-Identifier: Apache-2.0
// Tcp: the operations among a group of ranks over their connections. Every rank sends each other
// the slice that it owns, the owner combines in the order of ranks and sends the result: as many
// bytes as a ring, and the bits of a single process. Ranks are places in the group (Request::root
// too); operations are numbered by the caller.
#pragma once

#include "collective/streams.hpp"

#include <utility>
#include <vector>

namespace muster::collective {

class Tcp {
 public:
  Tcp(Mesh& mesh, std::vector<int> members);

  // Performs it before it returns; all kinds but send and recv.
  [[nodiscard]] Result<void> run(const Request& request);

 private:
  // What all say of an operation before its data.
  struct Head {
    std::uint64_t seq;
    std::uint32_t what;
    std::int32_t root;
    std::uint64_t count;
    double scale;
    bool operator==(const Head&) const = default;
  };

  // Bytes of a buffer: where, how many.
  struct Slice {
    std::size_t at;
    std::size_t bytes;
  };

  [[nodiscard]] Result<void> meet(const Request& request);
  [[nodiscard]] Result<void> compare(const Request& step);
  [[nodiscard]] Result<void> run_copies(const Request& request);
  void queue_copies(const Request& request, const char* in);
  [[nodiscard]] Result<void> run_small(const Request& request);
  [[nodiscard]] Result<void> run_sliced(const Request& request);
  [[nodiscard]] Slice slice(const Request& request, std::size_t round, std::size_t owner) const;
  [[nodiscard]] std::size_t rounds(const Request& request) const;
  void queue_round(const Request& request, std::size_t round);
  [[nodiscard]] Result<void> combine_round(const Request& request, std::size_t round);
  void queue_results(const Request& request, std::size_t round, const char* result);
  void combine(const Request& request, std::size_t count, void* out);
  [[nodiscard]] bool wants_result(const Request& request, std::size_t member) const;

  Streams streams_;
  std::size_t n_;
  std::size_t self_;
  Head mine_{};
  std::vector<Head> theirs_;
  std::vector<char> scratch_;  // what came from others, to be combined
  std::vector<const void*> sources_;
  std::vector<std::vector<std::uint64_t>> come_marks_;  // of two rounds, of each member
  std::vector<std::vector<std::uint64_t>> gone_marks_;
};

}  // namespace muster::collective
