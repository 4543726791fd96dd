// SPDX-License-Identifier: Apache-2.0
#include "collective/communicator/checks.hpp"

#include "base/plural.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

namespace muster::collective {
namespace {

bool has_in(const Call& call) {
  return call.kind != Kind::barrier && call.kind != Kind::broadcast && call.kind != Kind::recv;
}

bool has_out(const Call& call, int rank) {
  return call.kind != Kind::barrier && call.kind != Kind::send &&
         (call.kind != Kind::reduce || call.root == rank);
}

struct Area {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

template <class AnyBuffer>
Area area(const AnyBuffer& b) {
  const auto begin = reinterpret_cast<std::uintptr_t>(b.data);
  return {begin, begin + b.count * size_of(b.dtype)};
}

// Only an exact in-place overlap is allowed.
bool overlaps_badly(const Call& call, int rank) {
  const Area in = area(call.in);
  const Area out = area(call.out);
  if (in.begin >= out.end || out.begin >= in.end) {
    return false;
  }
  const std::size_t width = size_of(call.in.dtype);
  const auto place = static_cast<std::size_t>(rank);
  switch (call.kind) {
    case Kind::all_gather:
      return in.begin != out.begin + place * call.in.count * width;
    case Kind::reduce_scatter:
      return out.begin != in.begin + place * call.out.count * width;
    default:
      return in.begin != out.begin;
  }
}

std::optional<std::string> wrong_counts(const Call& call, std::size_t ranks) {
  const std::size_t in = call.in.count;
  const std::size_t out = call.out.count;
  switch (call.kind) {
    case Kind::all_gather:
      return out == in * ranks
                 ? std::nullopt
                 : std::optional(fmt::format(
                       "'out' has {}, expected {} × {}", counted(out, "element"), ranks, in));
    case Kind::reduce_scatter:
      return in == out * ranks
                 ? std::nullopt
                 : std::optional(fmt::format(
                       "'in' has {}, expected {} × {}", counted(in, "element"), ranks, out));
    case Kind::all_to_all:
      return in == out && in % ranks == 0
                 ? std::nullopt
                 : std::optional(fmt::format(
                       "'in' has {} and 'out' has {} elements: the counts must be equal "
                       "and a multiple of {}",
                       in,
                       out,
                       ranks));
    default:
      return in == out ? std::nullopt
                       : std::optional(
                             fmt::format("'in' has {} and 'out' has {}: the counts must be equal",
                                         counted(in, "element"),
                                         out));
  }
}

std::optional<std::string> wrong_root(const Call& call, int rank, int size) {
  const bool transfer = call.kind == Kind::send || call.kind == Kind::recv;
  if (!transfer && call.kind != Kind::reduce && call.kind != Kind::broadcast) {
    return std::nullopt;
  }
  if (call.root < 0 || call.root >= size) {
    return fmt::format(
        "rank {} is out of range: the communicator has {}", call.root, counted(size, "rank"));
  }
  if (transfer && call.root == rank) {
    return "a rank cannot send to itself or receive from itself";
  }
  return std::nullopt;
}

template <class AnyBuffer>
std::optional<std::string> wrong_buffer(const AnyBuffer& b, const char* name) {
  if (size_of(b.dtype) == 0) {
    return fmt::format("'{}' has an unknown dtype", name);
  }
  if (b.data == nullptr && b.count > 0) {
    return fmt::format("'{}' is null", name);
  }
  if (b.count > SIZE_MAX / 16 / size_of(b.dtype)) {
    return fmt::format("'{}' has {} elements, which exceeds the address space", name, b.count);
  }
  return std::nullopt;
}

std::optional<std::string> wrong_pair(const Call& call, int rank, int size) {
  if (call.in.dtype != call.out.dtype) {
    return fmt::format("'in' is {} and 'out' is {}: the types must be equal",
                       name_of(call.in.dtype),
                       name_of(call.out.dtype));
  }
  if (call.in.device != call.out.device) {
    return "'in' and 'out' are not on the same device";
  }
  if (auto wrong = wrong_counts(call, static_cast<std::size_t>(size))) {
    return wrong;
  }
  if (overlaps_badly(call, rank)) {
    return "'in' and 'out' overlap, which is allowed only for in-place calls";
  }
  return std::nullopt;
}

std::optional<std::string> wrong_call(const Call& call, int rank, int size) {
  if (auto wrong = wrong_root(call, rank, size)) {
    return wrong;
  }
  if (static_cast<unsigned>(call.op) > static_cast<unsigned>(Op::premul_sum)) {
    return "unknown op";
  }
  const bool in = has_in(call);
  const bool out = has_out(call, rank);
  auto wrong = in ? wrong_buffer(call.in, "in") : std::nullopt;
  if (!wrong && out) {
    wrong = wrong_buffer(call.out, "out");
  }
  return !wrong && in && out ? wrong_pair(call, rank, size) : wrong;
}

}  // namespace

Result<Request> checked(const Call& call, int rank, int size) {
  if (const auto wrong = wrong_call(call, rank, size)) {
    return failure(Errc::invalid_argument, fmt::format("{}: {}", name_of(call.kind), *wrong));
  }
  Request request;
  request.kind = call.kind;
  request.op = call.op;
  request.root = call.root;
  request.scale = call.scale;
  request.stream = call.stream;
  request.in = has_in(call) ? call.in.data : nullptr;
  request.out = has_out(call, rank) ? call.out.data : nullptr;
  const ConstBuffer& main = has_in(call) ? call.in : ConstBuffer(call.out);
  request.dtype = main.dtype;
  request.device = main.device;
  request.count = main.count;
  if (call.kind == Kind::reduce_scatter) {
    request.count = call.out.count;
  } else if (call.kind == Kind::all_to_all) {
    request.count = call.in.count / static_cast<std::size_t>(size);
  }
  const bool tiny = request.dtype == DType::f8e4m3 || request.dtype == DType::f8e5m2;
  if (tiny && request.device == kHost) {
    return failure(
        Errc::unsupported,
        fmt::format(
            "{}: {} is supported only on GPUs", name_of(call.kind), name_of(request.dtype)));
  }
  return request;
}

}  // namespace muster::collective
