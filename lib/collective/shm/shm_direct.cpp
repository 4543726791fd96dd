// SPDX-License-Identifier: Apache-2.0
// Shm: large operations, and operations whose buffers are all in the arena.
#include "collective/shm/shm.hpp"

#include <algorithm>
#include <cstring>

namespace muster::collective {
namespace {

// Small enough to combine and copy while the data are in the L1 cache.
constexpr std::size_t kBlock = 16UL * 1024;

}  // namespace

void Shm::post_places(const Step& request) {
  const std::size_t bytes = request.count * size_of(request.dtype);
  const std::size_t in_bytes =
      request.kind == Kind::reduce_scatter || request.kind == Kind::all_to_all ? bytes * n_ : bytes;
  const std::size_t out_bytes =
      request.kind == Kind::all_gather || request.kind == Kind::all_to_all ? bytes * n_ : bytes;
  const void* const in = request.kind == Kind::broadcast ? request.out : request.in;
  const Places mine{arena_.place_of(in, in_bytes), arena_.place_of(request.out, out_bytes)};
  post(request, &mine, sizeof(mine));
}

Result<void> Shm::run_large(const Step& request) {
  post_places(request);
  if (auto met = meet(request); !met) {
    return met;
  }
  for (std::size_t i = 0; i < n_; ++i) {
    std::memcpy(&places_[i], segment_.post_data(i, request.seq), sizeof(Places));
  }
  return all_in_arena(request) ? run_direct(request) : run_staged(request);
}

// All ranks get the same result, because it depends only on the posts.
bool Shm::all_in_arena(const Step& request) {
  const auto inside = [](std::uint64_t place) { return place != Arena::kOutside; };
  const auto root = static_cast<std::size_t>(std::max(request.root, 0));
  switch (request.kind) {
    case Kind::broadcast:
      return inside(places_[root].in);
    // Each rank reads all inputs and writes its slice of the result into all outputs.
    case Kind::all_reduce:
      return std::ranges::all_of(places_,
                                 [&](const Places& p) { return inside(p.in) && inside(p.out); });
    // All ranks write their slices into the output of the root.
    case Kind::reduce:
      return inside(places_[root].out) &&
             std::ranges::all_of(places_, [&](const Places& p) { return inside(p.in); });
    case Kind::all_to_all:  // not in place, which would overwrite data that others still read
      return std::ranges::all_of(places_,
                                 [&](const Places& p) { return inside(p.in) && p.in != p.out; });
    default:
      // Each rank writes only its own output, so outputs may be private memory.
      return std::ranges::all_of(places_, [&](const Places& p) { return inside(p.in); });
  }
}

Result<void> Shm::run_direct(const Step& request) {
  if (auto mapped = arena_.base(); !mapped) {
    segment_.report(mapped.error());
    return std::unexpected(mapped.error());
  }
  const bool combines = request.kind == Kind::all_reduce || request.kind == Kind::reduce ||
                        request.kind == Kind::reduce_scatter;
  if (combines) {
    combine_direct(request);
  } else {
    copy_direct(request);
  }
  // Until all ranks have finished, they may read our input and write our output.
  advance(&Member::taken);
  return wait_all(request, &Member::taken, segment_.me().taken.load(std::memory_order_relaxed));
}

void Shm::combine_direct(const Step& request) {
  char* const base = *arena_.base();
  const std::size_t width = size_of(request.dtype);
  const bool scatter = request.kind == Kind::reduce_scatter;
  // Slices start on cache lines, so that two ranks never write the same line.
  const std::size_t share =
      scatter ? request.count : (request.count + n_ - 1) / n_ + (64 / width - 1);
  const std::size_t slice = scatter ? share : share / (64 / width) * (64 / width);
  const std::size_t first = scatter ? 0 : std::min(self_ * slice, request.count);
  const std::size_t last = scatter ? share : std::min(first + slice, request.count);
  const std::size_t in_shift = scatter ? self_ * share * width : 0;
  for (std::size_t at = first; at < last; at += kBlock / width) {
    const std::size_t count = std::min(kBlock / width, last - at);
    for (std::size_t i = 0; i < n_; ++i) {
      sources_[i] = base + places_[i].in + in_shift + at * width;
    }
    if (scatter) {
      combine(request, count, static_cast<char*>(request.out) + at * width);
      continue;
    }
    const std::size_t target =
        request.kind == Kind::reduce ? static_cast<std::size_t>(request.root) : self_;
    char* const result = base + places_[target].out + at * width;
    combine(request, count, result);
    for (std::size_t i = 0; request.kind == Kind::all_reduce && i < n_; ++i) {
      if (i != self_) {
        std::memcpy(base + places_[i].out + at * width, result, count * width);
      }
    }
  }
}

void Shm::copy_direct(const Step& request) {
  const char* const base = *arena_.base();
  const std::size_t bytes = request.count * size_of(request.dtype);
  auto* const out = static_cast<char*>(request.out);
  if (request.kind == Kind::broadcast) {
    if (static_cast<int>(self_) != request.root) {
      std::memcpy(out, base + places_[static_cast<std::size_t>(request.root)].in, bytes);
    }
    return;
  }
  const std::size_t shift = request.kind == Kind::all_to_all ? self_ * bytes : 0;
  for (std::size_t step = 0; step < n_; ++step) {
    const std::size_t i = (self_ + step) % n_;  // start with different ranks, to spread the load
    const char* const from = base + places_[i].in + shift;
    // In place, our own block is already there.
    if (out + i * bytes != from) {
      std::memcpy(out + i * bytes, from, bytes);
    }
  }
}

}  // namespace muster::collective
