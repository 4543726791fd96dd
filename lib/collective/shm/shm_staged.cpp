// SPDX-License-Identifier: Apache-2.0
// Shm: large operations on private buffers, in rounds through staging memory. While one round is
// copied out, the next is combined, and the one after that is copied in.
#include "collective/shm/shm.hpp"

#include <algorithm>
#include <cstring>

namespace muster::collective {
namespace {

constexpr std::size_t kStagedBlock = 16UL * 1024;
constexpr std::size_t kLeastSlots = 4;
// A piece is large enough to amortize its synchronization, fits into the L2 cache, and is small
// enough for at least kRounds rounds, so that filling and combining can overlap.
constexpr std::size_t kLeastPiece = 16UL * 1024;
constexpr std::size_t kMostStagedPiece = 256UL * 1024;
constexpr std::size_t kRounds = 2;

std::size_t lines(std::size_t bytes) {
  return bytes / kLine * kLine;
}

}  // namespace

// Successive operations use the slots in rotation, so that the slots together exceed one CPU's
// cache: writing a line that is still in another CPU's cache takes several times as long as writing
// an evicted one.
Shm::Staging Shm::cut(std::size_t parts, std::size_t share) const {
  const std::size_t all = segment_.plan().layout.staging;
  const std::size_t most = std::min(lines(all / (kLeastSlots * parts)), kMostStagedPiece);
  const std::size_t piece =
      std::clamp(lines(share / kRounds + kLine - 1), kLeastPiece, kMostStagedPiece);
  const std::size_t fitting = std::min(piece, most);
  return {.piece = fitting,
          .parts = parts,
          .slots = all / (fitting * parts),
          .first = segment_.me().filled.load(std::memory_order_relaxed)};
}

char* Shm::staged(const Staging& staging, std::size_t rank, std::size_t round, std::size_t part) {
  const std::size_t slot = (staging.first + round) % staging.slots;
  return segment_.staging(rank) + (slot * staging.parts + part) * staging.piece;
}

// Slots can be reused without another wait. With a combining step: a rank that fills round i has
// taken round i-3, so all ranks have combined that round, which was the last read of the slot's
// input. A rank that combines round i-1 knows that all have filled it, after taking round i-4.
// Without a combining step: a rank that fills round i has seen all ranks fill round i-2, after
// taking round i-4.
template <class Fill, class Combine, class Take>
Result<void> Shm::in_rounds(const Step& request,
                            Rounds rounds,
                            const Fill& fill,
                            const Combine& combine_round,
                            const Take& take) {
  const std::uint64_t filled = segment_.me().filled.load(std::memory_order_relaxed);
  const std::uint64_t combined = segment_.me().combined.load(std::memory_order_relaxed);
  const std::size_t delay = 1 + rounds.combined;
  for (std::size_t i = 0; i < rounds.count + delay; ++i) {
    if (i < rounds.count) {
      fill(i);
      advance(&Member::filled);
    }
    if (i >= 1 && i - 1 < rounds.count) {
      if (auto all = wait_all(request, &Member::filled, filled + i); !all) {
        return all;
      }
      if (rounds.combined != 0) {
        combine_round(i - 1);
        advance(&Member::combined);
      }
    }
    if (i >= delay) {
      if (rounds.combined != 0) {
        if (auto all = wait_all(request, &Member::combined, combined + i - 1); !all) {
          return all;
        }
      }
      take(i - delay);
    }
  }
  return {};
}

Result<void> Shm::run_staged(const Step& request) {
  switch (request.kind) {
    case Kind::all_reduce:
      return n_ == 2 ? staged_pair(request) : staged_reduce(request);
    case Kind::reduce:
      return staged_reduce(request);
    case Kind::reduce_scatter:
      return staged_scatter(request);
    default:
      return staged_copy(request);
  }
}

// Each round processes one region of the buffer. The region is divided into one slice per rank, and
// each rank combines its own slice.
Result<void> Shm::staged_reduce(const Step& request) {
  const std::size_t total = request.count * size_of(request.dtype);
  const Staging staging = cut(n_ + 1, total / n_);  // one part per input, plus one for the result
  const std::size_t region = staging.piece * n_;
  const bool wanted = request.kind == Kind::all_reduce || static_cast<int>(self_) == request.root;
  const auto* const in = static_cast<const char*>(request.in);
  auto* const out = static_cast<char*>(request.out);
  // Bytes of slice i in a round: [first, last) of the buffer.
  const auto slice = [&](std::size_t round, std::size_t i) {
    const std::size_t begin = round * region;
    const std::size_t size = std::min(region, total - begin);
    const std::size_t part = lines((size + n_ - 1) / n_ + kLine - 1);
    return std::pair(begin + std::min(i * part, size), begin + std::min((i + 1) * part, size));
  };
  const auto input = [&](std::size_t rank, std::size_t round, std::size_t i) {
    return staged(staging, rank, round, i);
  };
  const auto result = [&](std::size_t rank, std::size_t round) {
    return staged(staging, rank, round, n_);
  };
  const auto fill = [&](std::size_t round) {
    for (std::size_t i = 0; i < n_; ++i) {
      const auto [first, last] = slice(round, i);
      if (i != self_ && first < last) {
        stage_(input(self_, round, i), in + first, last - first);
      }
    }
  };
  const auto combine_round = [&](std::size_t round) {
    const auto [first, last] = slice(round, self_);
    for (std::size_t at = first; at < last; at += kStagedBlock) {
      const std::size_t bytes = std::min(kStagedBlock, last - at);
      for (std::size_t i = 0; i < n_; ++i) {
        sources_[i] = i == self_ ? in + at : input(i, round, self_) + (at - first);
      }
      char* const to = result(self_, round) + (at - first);
      combine(request, bytes / size_of(request.dtype), wanted ? out + at : to);
      if (wanted) {
        stage_(to, out + at, bytes);
      }
    }
  };
  const auto take = [&](std::size_t round) {
    for (std::size_t i = 0; wanted && i < n_; ++i) {
      const auto [first, last] = slice(round, i);
      if (i != self_ && first < last) {
        std::memcpy(out + first, result(i, round), last - first);
      }
    }
  };
  return in_rounds(request, {(total + region - 1) / region, 1}, fill, combine_round, take);
}

// With two ranks, splitting the work would make each rank read the slice that the other rank
// combines. If each rank combines everything instead, the same number of cache lines is
// transferred, with one fewer synchronization.
Result<void> Shm::staged_pair(const Step& request) {
  const std::size_t total = request.count * size_of(request.dtype);
  const Staging staging = cut(1, total);
  const std::size_t piece = staging.piece;
  const auto* const in = static_cast<const char*>(request.in);
  auto* const out = static_cast<char*>(request.out);
  const auto size = [&](std::size_t round) { return std::min(piece, total - round * piece); };
  const auto fill = [&](std::size_t round) {
    stage_(staged(staging, self_, round, 0), in + round * piece, size(round));
  };
  const auto take = [&](std::size_t round) {
    sources_[self_] = in + round * piece;
    sources_[1 - self_] = staged(staging, 1 - self_, round, 0);
    combine(request, size(round) / size_of(request.dtype), out + round * piece);
  };
  return in_rounds(
      request, {(total + piece - 1) / piece, 0}, fill, [](std::size_t) {}, take);
}

// Each round processes one piece of every block. Each rank combines its own block directly into its
// output.
Result<void> Shm::staged_scatter(const Step& request) {
  const std::size_t block = request.count * size_of(request.dtype);
  const Staging staging = cut(n_, block);
  const std::size_t piece = staging.piece;
  const auto* const in = static_cast<const char*>(request.in);
  const auto input = [&](std::size_t rank, std::size_t round, std::size_t i) {
    return staged(staging, rank, round, i);
  };
  const auto size = [&](std::size_t round) { return std::min(piece, block - round * piece); };
  const auto fill = [&](std::size_t round) {
    for (std::size_t i = 0; i < n_; ++i) {
      if (i != self_) {
        stage_(input(self_, round, i), in + i * block + round * piece, size(round));
      }
    }
  };
  const auto take = [&](std::size_t round) {
    for (std::size_t i = 0; i < n_; ++i) {
      sources_[i] = i == self_ ? in + self_ * block + round * piece : input(i, round, self_);
    }
    combine(request,
            size(round) / size_of(request.dtype),
            static_cast<char*>(request.out) + round * piece);
  };
  return in_rounds(
      request, {(block + piece - 1) / piece, 0}, fill, [](std::size_t) {}, take);
}

// all_gather, broadcast (one piece for all ranks) and all_to_all (one piece per rank).
Result<void> Shm::staged_copy(const Step& request) {
  const bool each = request.kind == Kind::all_to_all;
  const bool from_root = request.kind == Kind::broadcast;
  const std::size_t parts = each ? n_ : 1;
  const std::size_t block = request.count * size_of(request.dtype);
  const Staging staging = cut(parts, block);
  const std::size_t piece = staging.piece;
  const auto* const in = static_cast<const char*>(from_root ? request.out : request.in);
  auto* const out = static_cast<char*>(request.out);
  const auto size = [&](std::size_t round) { return std::min(piece, block - round * piece); };
  const auto fill = [&](std::size_t round) {
    if (from_root && static_cast<int>(self_) != request.root) {
      return;
    }
    for (std::size_t i = 0; i < parts; ++i) {
      if (!each || i != self_) {
        stage_(staged(staging, self_, round, i), in + i * block + round * piece, size(round));
      }
    }
    const std::size_t own = (each ? self_ * block : 0) + round * piece;
    char* const to = out + self_ * block + round * piece;
    if (!from_root && to != in + own) {
      std::memmove(to, in + own, size(round));
    }
  };
  const auto take = [&](std::size_t round) {
    for (std::size_t i = 0; i < n_; ++i) {
      const bool mine = i == self_ || (from_root && static_cast<int>(i) != request.root);
      if (!mine) {
        std::memcpy(out + (from_root ? 0 : i * block) + round * piece,
                    staged(staging, i, round, each ? self_ : 0),
                    size(round));
      }
    }
  };
  return in_rounds(
      request, {(block + piece - 1) / piece, 0}, fill, [](std::size_t) {}, take);
}

}  // namespace muster::collective
