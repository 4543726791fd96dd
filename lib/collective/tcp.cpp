// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp.hpp"

#include "collective/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace muster::collective {
namespace {

// Up to here everybody sends everything to everybody: one way instead of two.
constexpr std::size_t kSmall = 16UL * 1024;
constexpr std::size_t kPiece = 256UL * 1024;
constexpr std::size_t kBlock = 16UL * 1024;
constexpr std::size_t kAlign = 64;

std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

bool combines(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

}  // namespace

Tcp::Tcp(Mesh& mesh, std::vector<int> members)
    : streams_(mesh, std::move(members)),
      n_(streams_.size()),
      self_(streams_.self()),
      theirs_(n_),
      sources_(n_),
      come_marks_(2, std::vector<std::uint64_t>(n_)),
      gone_marks_(2, std::vector<std::uint64_t>(n_)) {}

Result<void> Tcp::run(const Request& request) {
  if (auto error = streams_.mesh().failure()) {
    return std::unexpected(std::move(*error));
  }
  const Request& told = request.told();
  mine_ = {told.seq, told.what(), told.root, told.count, told.scale};
  for (std::size_t i = 0; i < n_; ++i) {
    if (i != self_) {
      streams_.send(i, &mine_, sizeof(mine_));
      streams_.receive(i, &theirs_[i], sizeof(Head));
    }
  }
  if (!combines(request.kind)) {
    return run_copies(request);
  }
  const std::size_t blocks = request.kind == Kind::reduce_scatter ? n_ : 1;
  const std::size_t bytes = request.count * size_of(request.dtype) * blocks;
  return bytes <= kSmall ? run_small(request) : run_sliced(request);
}

// The heads come before anything else is queued to be received: what follows a head that says
// something else must not get into the buffers of this operation.
Result<void> Tcp::meet(const Request& request) {
  std::vector<std::uint64_t> marks;
  for (std::size_t i = 0; i < n_; ++i) {
    marks.push_back(streams_.received_mark(i));
  }
  auto come = streams_.until(request, [&] {
    for (std::size_t i = 0; i < n_; ++i) {
      if (!streams_.come(i, marks[i])) {
        return false;
      }
    }
    return true;
  });
  return come ? compare(request) : come;
}

Result<void> Tcp::compare(const Request& step) {
  const Request& request = step.told();
  for (std::size_t i = 0; i < n_; ++i) {
    if (i == self_) {
      continue;
    }
    if (theirs_[i] == mine_) {
      streams_.mesh().seen(streams_.rank_of(i), request);
      continue;
    }
    const Head& head = theirs_[i];
    Request called = request;
    called.seq = head.seq;
    called.set_what(head.what);
    called.root = head.root;
    called.count = head.count;
    Error error{.code = Errc::mismatch, .rank = streams_.rank_of(i), .seq = request.seq};
    error.text =
        fmt::format("the ranks disagree: rank {} called {}{}, rank {} called {}{}",
                    streams_.rank_of(self_),
                    request.describe(),
                    head.scale == request.scale ? "" : fmt::format(" scale {}", request.scale),
                    streams_.rank_of(i),
                    called.describe(),
                    head.scale == request.scale ? "" : fmt::format(" scale {}", head.scale));
    streams_.mesh().report(error);
    return std::unexpected(streams_.mesh().failure().value_or(error));
  }
  return {};
}

Result<void> Tcp::run_copies(const Request& request) {
  const std::size_t bytes = request.count * size_of(request.dtype);
  const auto* in =
      static_cast<const char*>(request.kind == Kind::broadcast ? request.out : request.in);
  if (request.kind == Kind::all_to_all && in == request.out) {
    scratch_.assign(in, in + bytes * n_);  // in place: others' blocks come where mine still are
    in = scratch_.data();
  }
  for (std::size_t i = 0; i < n_; ++i) {
    const bool gives = request.kind != Kind::broadcast || static_cast<int>(self_) == request.root;
    if (i != self_ && gives && request.kind != Kind::barrier) {
      streams_.send(i, in + (request.kind == Kind::all_to_all ? i * bytes : 0), bytes);
    }
  }
  if (auto met = meet(request); !met) {
    return met;
  }
  queue_copies(request, in);
  return streams_.drain(request);
}

void Tcp::queue_copies(const Request& request, const char* in) {
  const std::size_t bytes = request.count * size_of(request.dtype);
  auto* const out = static_cast<char*>(request.out);
  if (request.kind == Kind::broadcast) {
    if (static_cast<int>(self_) != request.root) {
      streams_.receive(static_cast<std::size_t>(request.root), out, bytes);
    }
    return;
  }
  for (std::size_t i = 0; request.kind != Kind::barrier && i < n_; ++i) {
    if (i != self_) {
      streams_.receive(i, out + i * bytes, bytes);
      continue;
    }
    const char* const own = in + (request.kind == Kind::all_to_all ? i * bytes : 0);
    if (bytes > 0 && own != out + i * bytes) {
      std::memcpy(out + i * bytes, own, bytes);
    }
  }
}

bool Tcp::wants_result(const Request& request, std::size_t member) const {
  return request.kind == Kind::all_reduce ||
         (request.kind == Kind::reduce && static_cast<int>(member) == request.root);
}

Result<void> Tcp::run_small(const Request& request) {
  const bool scatter = request.kind == Kind::reduce_scatter;
  const std::size_t part = request.count * size_of(request.dtype);
  const std::size_t bytes = part * (scatter ? n_ : 1);
  const bool wanted = scatter || wants_result(request, self_);
  scratch_.resize(std::max(scratch_.size(), bytes * n_));
  const auto* const in = static_cast<const char*>(request.in);
  for (std::size_t i = 0; i < n_; ++i) {
    if (i != self_ && (scatter || wants_result(request, i))) {
      streams_.send(i, in + (scatter ? i * part : 0), part);
    }
  }
  if (auto met = meet(request); !met) {
    return met;
  }
  for (std::size_t i = 0; i < n_; ++i) {
    sources_[i] = i == self_ ? in + (scatter ? self_ * part : 0) : scratch_.data() + i * bytes;
    if (i != self_ && wanted) {
      streams_.receive(i, scratch_.data() + i * bytes, part);
    }
  }
  auto moved = streams_.drain(request);
  if (moved && wanted) {
    combine(request, request.count, request.out);
  }
  return moved;
}

std::size_t Tcp::rounds(const Request& request) const {
  const std::size_t bytes = request.count * size_of(request.dtype);
  const std::size_t step = request.kind == Kind::reduce_scatter ? kPiece : kPiece * n_;
  return (bytes + step - 1) / step;
}

// What `owner` combines in a round: a piece of its block, or its share of a region.
Tcp::Slice Tcp::slice(const Request& request, std::size_t round, std::size_t owner) const {
  const std::size_t bytes = request.count * size_of(request.dtype);
  if (request.kind == Kind::reduce_scatter) {
    const std::size_t at = round * kPiece;
    return {owner * bytes + at, std::min(kPiece, bytes - at)};
  }
  const std::size_t begin = round * kPiece * n_;
  const std::size_t size = std::min(kPiece * n_, bytes - begin);
  const std::size_t part = align_up((size + n_ - 1) / n_);
  const std::size_t first = std::min(owner * part, size);
  return {begin + first, std::min(first + part, size) - first};
}

void Tcp::queue_round(const Request& request, std::size_t round) {
  const auto* const in = static_cast<const char*>(request.in);
  const std::size_t own = slice(request, round, self_).bytes;
  for (std::size_t i = 0; i < n_; ++i) {
    if (i != self_) {
      const Slice theirs = slice(request, round, i);
      streams_.send(i, in + theirs.at, theirs.bytes);
      streams_.receive(i, scratch_.data() + (round % 2 * (n_ + 1) + i) * kPiece, own);
      come_marks_[round % 2][i] = streams_.received_mark(i);
    }
  }
}

// Each stream carries the slices of round k+1 before the results of round k: they are on their way
// while round k is combined.
Result<void> Tcp::run_sliced(const Request& request) {
  scratch_.resize(std::max(scratch_.size(), 2 * (n_ + 1) * kPiece));
  for (auto& marks : gone_marks_) {
    std::ranges::fill(marks, 0);
  }
  if (auto met = meet(request); !met) {
    return met;
  }
  const std::size_t count = rounds(request);
  queue_round(request, 0);
  for (std::size_t round = 0; round < count; ++round) {
    if (round + 1 < count) {
      queue_round(request, round + 1);
    }
    if (auto combined = combine_round(request, round); !combined) {
      return combined;
    }
  }
  return streams_.drain(request);
}

Result<void> Tcp::combine_round(const Request& request, std::size_t round) {
  auto& gone = gone_marks_[round % 2];
  auto ready = streams_.until(request, [&] {
    for (std::size_t i = 0; i < n_; ++i) {
      if (i != self_ &&
          !(streams_.come(i, come_marks_[round % 2][i]) && streams_.gone(i, gone[i]))) {
        return false;
      }
    }
    return true;
  });
  if (!ready) {
    return ready;
  }
  const bool scatter = request.kind == Kind::reduce_scatter;
  const Slice own = slice(request, round, self_);
  char* const scratch = scratch_.data() + round % 2 * (n_ + 1) * kPiece;
  auto* const out = static_cast<char*>(request.out);
  char* const result = scatter                        ? out + round * kPiece
                       : wants_result(request, self_) ? out + own.at
                                                      : scratch + n_ * kPiece;
  for (std::size_t at = 0; at < own.bytes; at += kBlock) {
    for (std::size_t i = 0; i < n_; ++i) {
      sources_[i] = i == self_ ? static_cast<const char*>(request.in) + own.at + at
                               : scratch + i * kPiece + at;
    }
    combine(request, std::min(kBlock, own.bytes - at) / size_of(request.dtype), result + at);
  }
  if (!scatter) {
    queue_results(request, round, result);
  }
  for (std::size_t i = 0; i < n_; ++i) {
    gone[i] = streams_.sent_mark(i);
  }
  return {};
}

void Tcp::queue_results(const Request& request, std::size_t round, const char* result) {
  const std::size_t own = slice(request, round, self_).bytes;
  for (std::size_t i = 0; i < n_; ++i) {
    if (i == self_) {
      continue;
    }
    if (wants_result(request, i)) {
      streams_.send(i, result, own);
    }
    if (wants_result(request, self_)) {
      const Slice theirs = slice(request, round, i);
      streams_.receive(i, static_cast<char*>(request.out) + theirs.at, theirs.bytes);
    }
  }
}

void Tcp::combine(const Request& request, std::size_t count, void* out) {
  reduce({.op = request.op,
          .dtype = request.dtype,
          .scale = request.scale,
          .sources = sources_.data(),
          .source_count = n_,
          .count = count,
          .divisor = request.average_over},
         out);
}

}  // namespace muster::collective
