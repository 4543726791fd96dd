// SPDX-License-Identifier: Apache-2.0
#include "collective/lanes/lane_collectives.hpp"

#include "collective/kernels/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace muster::collective {
namespace {

// Up to this size all ranks exchange all data, in one step instead of two.
constexpr std::size_t kSmall = 16UL * 1024;
constexpr std::size_t kPiece = 256UL * 1024;
constexpr std::size_t kLaneBlock = 16UL * 1024;
constexpr std::size_t kLaneAlign = 64;

std::size_t align_up(std::size_t bytes) {
  return (bytes + kLaneAlign - 1) / kLaneAlign * kLaneAlign;
}

bool combines(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

}  // namespace

LaneCollectives::LaneCollectives(Lanes& lanes, std::vector<int> members)
    : streams_(lanes, std::move(members)),
      n_(streams_.size()),
      self_(streams_.self()),
      theirs_(n_),
      sources_(n_),
      received_marks_(2, std::vector<std::uint64_t>(n_)),
      sent_marks_(2, std::vector<std::uint64_t>(n_)) {}

Result<void> LaneCollectives::run(const Step& request) {
  // Skip this check in the steps of a larger operation, as Shm::run() does.
  if (request.whole == nullptr) {
    if (auto error = streams_.lanes().failure()) {
      return std::unexpected(std::move(*error));
    }
  }
  const Request& operation = request.operation();
  mine_ = {operation.seq, operation.signature(), operation.root, operation.count, operation.scale};
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

// Compare the headers before queuing any receive. Otherwise the data after a mismatched header
// could be written to the buffers of this operation.
Result<void> LaneCollectives::meet(const Step& request) {
  std::vector<std::uint64_t> marks;
  for (std::size_t i = 0; i < n_; ++i) {
    marks.push_back(streams_.receive_mark(i));
  }
  auto received = streams_.until(request, [&] {
    for (std::size_t i = 0; i < n_; ++i) {
      if (!streams_.received(i, marks[i])) {
        return false;
      }
    }
    return true;
  });
  return received ? compare(request) : received;
}

// Each rank compares all headers with the header of the lowest rank. So all ranks find the same
// mismatch and report the same error.
Result<void> LaneCollectives::compare(const Step& step) {
  const Request& request = step.operation();
  const auto head_of = [this](std::size_t i) -> const Head& {
    return i == self_ ? mine_ : theirs_[i];
  };
  for (std::size_t i = 1; i < n_; ++i) {
    if (!(head_of(i) == head_of(0))) {
      const Error error = disagreement(request, i);
      streams_.lanes().report(error);
      return std::unexpected(streams_.lanes().failure().value_or(error));
    }
  }
  for (std::size_t i = 0; i < n_; ++i) {
    if (i != self_) {
      streams_.lanes().seen(streams_.rank_of(i), request);
    }
  }
  return {};
}

// Describes a mismatch between the lowest rank and another one.
Error LaneCollectives::disagreement(const Request& request, std::size_t other) const {
  const Head& first = self_ == 0 ? mine_ : theirs_[0];
  const Head& second = self_ == other ? mine_ : theirs_[other];
  const auto text = [&](const Head& head) {
    Request called = request;
    called.seq = head.seq;
    called.set_signature(head.signature);
    called.root = head.root;
    called.count = head.count;
    return called.describe() +
           (first.scale == second.scale ? "" : fmt::format(" scale {}", head.scale));
  };
  return {.code = Errc::mismatch,
          .rank = streams_.rank_of(other),
          .seq = first.seq,
          .text = fmt::format("the ranks disagree: rank {} called {}, rank {} called {}",
                              streams_.rank_of(0),
                              text(first),
                              streams_.rank_of(other),
                              text(second))};
}

Result<void> LaneCollectives::run_copies(const Step& request) {
  const std::size_t bytes = request.count * size_of(request.dtype);
  const auto* in =
      static_cast<const char*>(request.kind == Kind::broadcast ? request.out : request.in);
  if (request.kind == Kind::all_to_all && in == request.out) {
    scratch_.assign(in, in + bytes * n_);  // in place: receiving would overwrite unsent blocks
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

void LaneCollectives::queue_copies(const Step& request, const char* in) {
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

bool LaneCollectives::wants_result(const Step& request, std::size_t member) const {
  return request.kind == Kind::all_reduce ||
         (request.kind == Kind::reduce && static_cast<int>(member) == request.root);
}

Result<void> LaneCollectives::run_small(const Step& request) {
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

std::size_t LaneCollectives::rounds(const Step& request) const {
  const std::size_t bytes = request.count * size_of(request.dtype);
  const std::size_t step = request.kind == Kind::reduce_scatter ? kPiece : kPiece * n_;
  return (bytes + step - 1) / step;
}

// The bytes that `owner` combines in a round: a slice of its block, or its share of a region.
LaneCollectives::Slice LaneCollectives::slice(const Step& request,
                                              std::size_t round,
                                              std::size_t owner) const {
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

void LaneCollectives::queue_round(const Step& request, std::size_t round) {
  const auto* const in = static_cast<const char*>(request.in);
  const std::size_t own = slice(request, round, self_).bytes;
  for (std::size_t i = 0; i < n_; ++i) {
    if (i != self_) {
      const Slice theirs = slice(request, round, i);
      streams_.send(i, in + theirs.at, theirs.bytes);
      streams_.receive(i, scratch_.data() + (round % 2 * (n_ + 1) + i) * kPiece, own);
      received_marks_[round % 2][i] = streams_.receive_mark(i);
    }
  }
}

// Each stream carries the slices of round k+1 before the results of round k. The slices are then
// in transit while round k is being combined.
Result<void> LaneCollectives::run_sliced(const Step& request) {
  scratch_.resize(std::max(scratch_.size(), 2 * (n_ + 1) * kPiece));
  for (auto& marks : sent_marks_) {
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

Result<void> LaneCollectives::combine_round(const Step& request, std::size_t round) {
  auto& sent = sent_marks_[round % 2];
  auto ready = streams_.until(request, [&] {
    for (std::size_t i = 0; i < n_; ++i) {
      if (i != self_ &&
          !(streams_.received(i, received_marks_[round % 2][i]) && streams_.sent(i, sent[i]))) {
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
  for (std::size_t at = 0; at < own.bytes; at += kLaneBlock) {
    for (std::size_t i = 0; i < n_; ++i) {
      sources_[i] = i == self_ ? static_cast<const char*>(request.in) + own.at + at
                               : scratch + i * kPiece + at;
    }
    combine(request, std::min(kLaneBlock, own.bytes - at) / size_of(request.dtype), result + at);
  }
  if (!scatter) {
    queue_results(request, round, result);
  }
  for (std::size_t i = 0; i < n_; ++i) {
    sent[i] = streams_.send_mark(i);
  }
  return {};
}

void LaneCollectives::queue_results(const Step& request, std::size_t round, const char* result) {
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

void LaneCollectives::combine(const Step& request, std::size_t count, void* out) {
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
