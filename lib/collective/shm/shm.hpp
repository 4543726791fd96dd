// SPDX-License-Identifier: Apache-2.0
// Shm: operations among the ranks on one host, in shared memory. Ranks, including Request::root,
// are indices in the segment. In small operations, each rank posts its data and reads all posts. In
// large operations, each rank combines its own slice, either in place if all buffers come from
// alloc(), or in pieces that pass through cache-sized staging memory.
#pragma once

#include "collective/shm/arena.hpp"
#include "collective/shm/segment.hpp"
#include "collective/shm/staging_copy.hpp"
#include "collective/transport/step.hpp"

#include <memory>
#include <vector>

namespace muster::collective {

// The layout of a segment for Shm.
[[nodiscard]] SegmentLayout shm_layout(std::size_t members);

class Shm {
 public:
  explicit Shm(Segment& segment);

  // Completes the operation before it returns. Supports all kinds except send and recv.
  [[nodiscard]] Result<void> run(const Step& request);

  // Posts the operation that run() receives next. Waits for the posts of the other ranks, but not
  // beyond `until`.
  [[nodiscard]] bool others_come(const Step& next, TimePoint until);

  // True if the last operation was small and did not have to wait for any rank.
  [[nodiscard]] bool prompt() const { return prompt_; }

  // Synchronizes with the others and checks that they called the same operation. hier calls it
  // before operations that bypass shared memory.
  [[nodiscard]] Result<void> agree(const Step& request);

  [[nodiscard]] Result<void*> alloc(std::size_t bytes) { return arena_.alloc(bytes); }

  [[nodiscard]] Result<void> free(void* memory) { return arena_.free(memory); }

 private:
  void map_staging();

  // Arena offsets of a rank's buffers, posted for large operations.
  struct Places {
    std::uint64_t in = 0;
    std::uint64_t out = 0;
  };

  // How many rounds an operation consists of, and whether each round has a combining step.
  struct Rounds {
    std::size_t count = 0;
    std::size_t combined = 0;  // 1 if a combining step follows the filling step
  };

  // How an operation uses each rank's staging memory: slots of `parts` pieces each, starting at
  // slot `first`.
  struct Staging {
    std::size_t piece = 0;  // bytes
    std::size_t parts = 0;
    std::size_t slots = 0;
    std::size_t first = 0;
  };

  [[nodiscard]] bool is_small(std::size_t bytes) const;
  void post(const Step& request, const void* data, std::size_t bytes);
  void post_small(const Step& request, std::size_t bytes);
  void post_places(const Step& request);
  [[nodiscard]] Result<void> meet(const Step& request);
  [[nodiscard]] Result<void> compare(const Step& step, std::size_t other);
  [[nodiscard]] Result<void> run_small(const Step& request, std::size_t bytes);
  void take_small(const Step& request);
  void combine_posts(const Step& request, std::size_t offset);

  [[nodiscard]] Result<void> run_large(const Step& request);
  [[nodiscard]] bool all_in_arena(const Step& request);
  [[nodiscard]] Result<void> run_direct(const Step& request);
  void combine_direct(const Step& request);
  void copy_direct(const Step& request);

  // Divides the staging memory for blocks of `share` bytes. The result is identical on all ranks.
  [[nodiscard]] Staging cut(std::size_t parts, std::size_t share) const;
  [[nodiscard]] char* staged(const Staging& staging,
                             std::size_t rank,
                             std::size_t round,
                             std::size_t part);
  [[nodiscard]] Result<void> run_staged(const Step& request);
  [[nodiscard]] Result<void> staged_reduce(const Step& request);
  [[nodiscard]] Result<void> staged_pair(const Step& request);
  [[nodiscard]] Result<void> staged_scatter(const Step& request);
  [[nodiscard]] Result<void> staged_copy(const Step& request);
  template <class Fill, class Combine, class Take>
  [[nodiscard]] Result<void> in_rounds(const Step& request,
                                       Rounds rounds,
                                       const Fill& fill,
                                       const Combine& combine,
                                       const Take& take);

  using Counter = std::atomic<std::uint64_t> Member::*;
  void advance(Counter counter);
  [[nodiscard]] Result<void> wait_all(const Step& request, Counter counter, std::uint64_t least);
  void combine(const Step& request, std::size_t count, void* out);

  Segment& segment_;
  Arena arena_;
  std::size_t n_;
  std::size_t self_;
  std::vector<const void*> sources_;  // inputs of the current combination, in rank order
  std::vector<Places> places_;
  StagingCopy stage_;
  bool prompt_ = false;
  std::uint64_t posted_ = 0;  // number of the last post
};

}  // namespace muster::collective
