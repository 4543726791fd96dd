// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/shm.hpp"

#include "base/clock.hpp"
#include "collective/kernels/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

namespace muster::collective {
namespace {

// Up to this size every rank reads all data directly, which requires only one wait.
constexpr std::size_t kPostBytes = 8UL * 1024;
constexpr std::size_t kLeastStaging = 576UL * 1024;
constexpr std::size_t kMostStaging = 4608UL * 1024;
constexpr std::size_t kStagingOfAll = 16UL * 1024 * 1024;  // fits in part of the last-level cache
constexpr std::size_t kChannelBytes = 2UL * 1024 * 1024;
constexpr std::size_t kMostPiece = 64UL * 1024;
constexpr std::size_t kSegmentPage = 4096;
constexpr std::size_t kMostMapped = 16;  // ranks; with more, mapping takes too long
constexpr std::size_t kStagingPerMember = 48UL * 1024;
constexpr int kLooks = 256;  // polls between two clock reads

// Bytes that this rank contributes.
std::size_t input_bytes(const Request& r, std::size_t members) {
  const std::size_t bytes = r.count * size_of(r.dtype);
  switch (r.kind) {
    case Kind::barrier:
      return 0;
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return bytes * members;
    default:
      return bytes;
  }
}

}  // namespace

SegmentLayout shm_layout(std::size_t members) {
  // One channel per pair of ranks.
  const std::size_t piece = std::clamp(kChannelBytes / (members * members), 4096UL, kMostPiece);
  return {.members = members,
          .post_data = kPostBytes,
          .staging = std::max(std::clamp(kStagingOfAll / members, kLeastStaging, kMostStaging),
                              members * kStagingPerMember) /
                     kLine * kLine,
          .piece = piece / kLine * kLine};
}

Shm::Shm(Segment& segment)
    : segment_(segment),
      arena_(
          segment.arena(), segment.self() * segment.plan().arena_bytes, segment.plan().arena_bytes),
      n_(segment.size()),
      self_(segment.self()),
      sources_(n_),
      places_(n_) {
  map_staging();
}

// Populates our page table. Otherwise the first operations would take page faults, at 2 µs per
// page. Kernels before 5.14 do not support this.
void Shm::map_staging() {
  const std::size_t bytes = segment_.plan().layout.staging / kSegmentPage * kSegmentPage;
  for (std::size_t i = 0; i < n_; ++i) {
    if (i == self_) {
      // Populate for writing: a page that was only read would fault again at the first store.
      static_cast<void>(::madvise(segment_.staging(i), bytes, MADV_POPULATE_WRITE));
    } else if (n_ <= kMostMapped) {
      static_cast<void>(::madvise(segment_.staging(i), bytes, MADV_POPULATE_READ));
    }
  }
}

Result<void> Shm::run(const Step& request) {
  // Skip this check after posting, and in the steps of a larger operation: the others may complete
  // the operation and exit, in which case it succeeds here too. If they failed earlier, a wait will
  // report it.
  if (posted_ != request.seq && request.whole == nullptr) {
    if (auto error = segment_.failure()) {
      return std::unexpected(std::move(*error));
    }
  }
  const std::size_t bytes = input_bytes(request, n_);
  const bool small = is_small(bytes);
  auto done = small ? run_small(request, bytes) : run_large(request);
  prompt_ = prompt_ && small;
  if (done) {
    // Used only for messages about a rank's position.
    segment_.me().completed.store(request.seq, std::memory_order_release);
  }
  return done;
}

bool Shm::others_come(const Step& next, TimePoint until) {
  const std::size_t bytes = input_bytes(next, n_);
  if (is_small(bytes)) {
    post_small(next, bytes);
  } else {
    post_places(next);
  }
  const auto missing = [&] {
    for (std::size_t i = 0; i < n_; ++i) {
      if (segment_.post(i, next.seq).seq.load(std::memory_order_acquire) != next.seq) {
        return static_cast<int>(i);
      }
    }
    return -1;
  };
  // If all posts have arrived, meet() notifies the sleeping ranks later.
  if (segment_.comes_soon(missing)) {
    return true;
  }
  segment_.notify();
  for (int round = 0; !segment_.failure() && steady_now() < until; ++round) {
    for (int i = 0; i < kLooks; ++i) {
      if (missing() < 0) {
        return true;
      }
      cpu_relax();
    }
    segment_.rest(round, [&missing] { return missing() < 0; });
  }
  return missing() < 0;
}

// Every rank reads all posts, so the limit is lower with many ranks.
bool Shm::is_small(std::size_t bytes) const {
  return bytes <= kPostBytes && bytes * n_ <= 4 * kPostBytes;
}

Result<void> Shm::agree(const Step& request) {
  post(request, nullptr, 0);
  auto met = meet(request);
  if (met) {
    segment_.me().completed.store(request.seq, std::memory_order_release);
  }
  return met;
}

void Shm::post(const Step& request, const void* data, std::size_t bytes) {
  if (posted_ == request.seq) {
    return;  // others_come() has already written this post; other ranks may be reading it
  }
  posted_ = request.seq;
  Post& mine = segment_.post(self_, request.seq);
  const Request& operation = request.operation();
  mine.signature = operation.signature();
  mine.root = operation.root;
  mine.count = operation.count;
  mine.scale = operation.scale;
  if (bytes > 0) {
    std::memcpy(segment_.post_data(self_, request.seq), data, bytes);
  }
  // Store the number last. The others load it first, with acquire, and then see the rest. This post
  // was last used two operations ago, and all ranks have read it since. A rank posts only after it
  // has seen all other ranks' posts for the previous operation, and each of those ranks had by then
  // read the posts of the operation before that.
  mine.seq.store(request.seq, std::memory_order_release);
}

Result<void> Shm::meet(const Step& request) {
  bool notified = false;
  for (std::size_t i = 0; i < n_; ++i) {
    const Post& theirs = segment_.post(i, request.seq);
    const auto missing = [&theirs, &request, i] {
      return theirs.seq.load(std::memory_order_acquire) == request.seq ? -1 : static_cast<int>(i);
    };
    // notify() blocks until the others' caches release our post's cache line. Their posts may
    // arrive meanwhile, so check for those first.
    if (!notified && !segment_.comes_soon(missing)) {
      segment_.notify();
      notified = true;
    }
    if (auto come = segment_.wait(request, missing); !come) {
      return come;
    }
    if (auto same = compare(request, i); !same) {
      return same;
    }
  }
  prompt_ = !notified;
  if (prompt_) {
    segment_.notify();
  }
  return {};
}

Result<void> Shm::compare(const Step& step, std::size_t other) {
  // Plain loads suffice: meet() has loaded the number with acquire, and that rank overwrites this
  // post only two operations later.
  const Post& theirs = segment_.post(other, step.seq);
  const Request& request = step.operation();
  if (theirs.signature == request.signature() && theirs.root == request.root &&
      theirs.count == request.count && theirs.scale == request.scale) [[likely]] {
    return {};
  }
  Request called = request;
  called.set_signature(theirs.signature);
  called.root = theirs.root;
  called.count = theirs.count;
  called.scale = theirs.scale;
  const auto text_of = [&](const Request& r) {
    return r.op == Op::premul_sum ? fmt::format("{} scale {}", r.describe(), r.scale)
                                  : r.describe();
  };
  const Error error{.code = Errc::mismatch,
                    .rank = segment_.plan().ranks[other],
                    .seq = request.seq,
                    .text = fmt::format("the ranks disagree: rank {} called {}, rank {} called {}",
                                        segment_.plan().ranks[self_],
                                        text_of(request),
                                        segment_.plan().ranks[other],
                                        text_of(called))};
  segment_.report(error);
  // Another rank may still be writing the reason for its failure.
  return std::unexpected(segment_.failure().value_or(error));
}

void Shm::post_small(const Step& request, std::size_t bytes) {
  const bool gives = request.kind != Kind::broadcast || static_cast<int>(self_) == request.root;
  const void* const data = request.kind == Kind::broadcast ? request.out : request.in;
  post(request, data, gives ? bytes : 0);
}

Result<void> Shm::run_small(const Step& request, std::size_t bytes) {
  post_small(request, bytes);
  auto met = meet(request);
  if (met) {
    take_small(request);
  }
  return met;
}

void Shm::take_small(const Step& request) {
  const std::size_t bytes = request.count * size_of(request.dtype);
  auto* const out = static_cast<char*>(request.out);
  const auto post = [&](std::size_t i) { return segment_.post_data(i, request.seq); };
  const bool root = static_cast<int>(self_) == request.root;
  if (bytes == 0) {
    return;
  }
  switch (request.kind) {
    case Kind::all_reduce:
      combine_posts(request, 0);
      break;
    case Kind::reduce:
      if (root) {
        combine_posts(request, 0);
      }
      break;
    case Kind::reduce_scatter:
      combine_posts(request, self_ * bytes);
      break;
    case Kind::broadcast:
      if (!root) {
        std::memcpy(out, post(static_cast<std::size_t>(request.root)), bytes);
      }
      break;
    case Kind::all_gather:
    case Kind::all_to_all:
      for (std::size_t i = 0; i < n_; ++i) {
        const std::size_t from = request.kind == Kind::all_to_all ? self_ * bytes : 0;
        std::memcpy(out + i * bytes, post(i) + from, bytes);
      }
      break;
    default:
      break;
  }
}

void Shm::combine_posts(const Step& request, std::size_t offset) {
  for (std::size_t i = 0; i < n_; ++i) {
    sources_[i] = segment_.post_data(i, request.seq) + offset;
  }
  combine(request, request.count, request.out);
}

void Shm::combine(const Step& request, std::size_t count, void* out) {
  reduce({.op = request.op,
          .dtype = request.dtype,
          .scale = request.scale,
          .sources = sources_.data(),
          .source_count = n_,
          .count = count,
          .divisor = request.average_over},
         out);
}

void Shm::advance(Counter counter) {
  auto& mine = segment_.me().*counter;
  // Only this rank writes this counter, so our own load needs no ordering. The release pairs with
  // the acquire in wait_all(): a rank that sees the number also sees the data that it counts.
  mine.store(mine.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  segment_.notify();
}

Result<void> Shm::wait_all(const Step& request, Counter counter, std::uint64_t least) {
  return segment_.wait(request, [&] {
    for (std::size_t i = 0; i < n_; ++i) {
      if ((segment_.member(i).*counter).load(std::memory_order_acquire) < least) {
        return static_cast<int>(i);
      }
    }
    return -1;
  });
}

}  // namespace muster::collective
