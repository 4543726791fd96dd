// SPDX-License-Identifier: Apache-2.0
#include "collective/hier/hier_transport.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace muster::collective {
namespace {

constexpr std::size_t kFillUp = 64UL * 1024;
// How many sequence numbers one operation may use on its host. An operation has two steps there,
// which may run twice, and each step may skip a number to get the right parity.
constexpr std::uint64_t kSteps = 8;

constexpr Duration kTimeToTell = std::chrono::seconds(3);

}  // namespace

HierTransport::HierTransport(std::unique_ptr<Mesh> mesh, Segment& segment, const Hosts& hosts)
    : TcpTransport(std::move(mesh)), segment_(segment), local_(segment) {
  const std::size_t each = segment.size();
  std::vector<int> members;
  for (const auto& ranks : hosts.ranks) {
    if (ranks.size() == each) {
      members.push_back(ranks[segment.self()]);
    }
  }
  if (members.size() == hosts.ranks.size()) {
    across_.emplace(lanes_, members);
  }
  segment_.number_steps(kSteps);
}

// The number is derived from the operation's own number, so that other ranks can report where this
// rank is. Successive numbers alternate between odd and even, because a rank has one post for odd
// numbers and one for even numbers.
std::uint64_t HierTransport::next_step(const Step& request) {
  const std::uint64_t least = std::max(local_seq_ + 1, request.operation().seq * kSteps);
  local_seq_ = least + (least % 2 == local_seq_ % 2 ? 1 : 0);
  return local_seq_;
}

Result<std::shared_ptr<Pending>> HierTransport::start(const Request& request) {
  // Check only here and not in the steps: a rank that has completed its steps may exit before us.
  if (auto error = mesh_->failure()) {
    return std::unexpected(std::move(*error));
  }
  const bool in_steps = request.kind == Kind::all_reduce && across_;
  auto done = in_steps ? all_reduce(request) : not_in_steps(request);
  if (!done) {
    mesh_->report(done.error());
    return std::unexpected(mesh_->failure().value_or(done.error()));
  }
  return nullptr;
}

// A rank that others wait for may itself be waiting, in an earlier step, for a missing rank. Later
// steps have later deadlines, so that this rank times out first and has time to report which rank
// is missing.
Step HierTransport::later(const Step& request, int step) {
  Step out = request;
  out.deadline += step * kTimeToTell;
  return out;
}

// This path uses TCP. If another rank on this host called an operation that sums in steps, TCP
// alone would not reveal the mismatch, so the operations on this host are compared first.
Result<void> HierTransport::not_in_steps(const Request& request) {
  const Step whole(request);
  Step here(request);
  here.seq = next_step(whole);
  here.whole = &request;
  const auto agreed = local_.agree(here);
  return agreed ? all_.run(later(whole, 1)) : agreed;
}

// Sums every element in the same order, regardless of its position and the count. A remainder that
// is not divisible by the number of ranks on the host is padded and goes through the same steps.
Result<void> HierTransport::all_reduce(const Request& request) {
  const std::size_t each = segment_.size();
  const std::size_t width = size_of(request.dtype);
  const std::uint64_t over = request.count % each;
  // Up to this amount of data, copying costs less than running the steps twice.
  const bool small = over != 0 && request.count * width <= kFillUp;
  const std::uint64_t whole = small ? 0 : request.count - over;
  if (whole != 0 || over == 0) {
    Step divides(request);
    divides.whole = &request;
    divides.count = whole;
    if (auto summed = sum_in_steps(divides); !summed) {
      return summed;
    }
  }
  return over == 0 ? Result<void>() : sum_filled_up(request, whole);
}

Result<void> HierTransport::sum_filled_up(const Request& request, std::uint64_t first) {
  const std::size_t width = size_of(request.dtype);
  const std::size_t bytes = (request.count - first) * width;
  const std::uint64_t count = (request.count - first + segment_.size() - 1) / segment_.size();
  filled_up_.assign(count * segment_.size() * width, 0);
  std::memcpy(filled_up_.data(), static_cast<const char*>(request.in) + first * width, bytes);
  Step rest(request);
  rest.whole = &request;
  rest.count = count * segment_.size();
  rest.in = filled_up_.data();
  rest.out = filled_up_.data();
  auto summed = sum_in_steps(rest);
  if (summed) {
    std::memcpy(static_cast<char*>(request.out) + first * width, filled_up_.data(), bytes);
  }
  return summed;
}

// Each rank sums one part of the buffer over its host and then over all hosts. Finally the ranks
// on each host gather the parts.
Result<void> HierTransport::sum_in_steps(const Step& request) {
  const std::size_t width = size_of(request.dtype);
  const std::uint64_t part = request.count / segment_.size();
  char* const mine = static_cast<char*>(request.out) + segment_.self() * part * width;
  // The steps produce partial sums, so scale only in the first step and average only between
  // hosts.
  const bool premul = request.op == Op::premul_sum;
  Step inside = request;
  inside.kind = Kind::reduce_scatter;
  inside.op = request.op == Op::avg ? Op::sum : request.op;
  inside.count = part;
  inside.seq = next_step(request);
  // Write the result directly into our part of `out`. If `in` is `out`, this works in place.
  inside.out = mine;
  if (auto summed = local_.run(inside); !summed) {
    return summed;
  }
  Step between = later(request, 1);
  between.op = premul ? Op::sum : request.op;
  between.scale = premul ? 1 : request.scale;
  between.count = part;
  between.in = mine;
  between.out = mine;
  between.average_over = static_cast<std::uint64_t>(mesh_->size());
  if (auto summed = across_->run(between); !summed) {
    return summed;
  }
  Step collect = later(request, 2);
  collect.kind = Kind::all_gather;
  collect.op = Op::sum;
  collect.scale = 1;
  collect.count = part;
  collect.in = mine;
  collect.seq = next_step(request);
  return local_.run(collect);
}

}  // namespace muster::collective
