// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp_transport.hpp"

#include "collective/tcp_message.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

namespace muster::collective {
namespace {

constexpr std::size_t kFillUp = 64UL * 1024;
// Numbers that an operation has for its steps on the host: twice two, and one to begin odd or even.
constexpr std::uint64_t kSteps = 8;

constexpr Duration kTimeToTell = std::chrono::seconds(3);

std::vector<int> all_ranks(int size) {
  std::vector<int> out(static_cast<std::size_t>(size));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

TcpTransport::TcpTransport(std::unique_ptr<Mesh> mesh)
    : mesh_(std::move(mesh)), all_(*mesh_, all_ranks(mesh_->size())) {}

TcpTransport::~TcpTransport() {
  for (const auto& [memory, bytes] : allocated_) {
    ::munmap(memory, bytes);
  }
}

Result<std::shared_ptr<Pending>> TcpTransport::start(const Request& request) {
  if (auto done = all_.run(request); !done) {
    return std::unexpected(std::move(done.error()));
  }
  return nullptr;
}

Result<void*> TcpTransport::alloc(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return std::unexpected(
        system_failure("taking " + std::to_string(bytes) + " bytes of memory", errno));
  }
  allocated_[memory] = size;
  return memory;
}

Result<void> TcpTransport::free(void* memory) {
  const auto found = allocated_.find(memory);
  if (found == allocated_.end()) {
    return failure(Errc::invalid_argument, "free: this memory is not from alloc");
  }
  ::munmap(found->first, found->second);
  allocated_.erase(found);
  return {};
}

Result<std::unique_ptr<Transfer>> TcpTransport::begin(const Request& request) {
  if (auto error = mesh_->failure()) {
    return std::unexpected(std::move(*error));
  }
  return make_message(*mesh_, request);
}

void TcpTransport::rest(int round) {
  constexpr int kBusyRounds = 32;
  if (round < kBusyRounds) {
    ::sched_yield();
    return;
  }
  // New messages and room for old ones are looked for each millisecond.
  static_cast<void>(::poll(nullptr, 0, 1));
}

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
    across_.emplace(*mesh_, members);
  }
  segment_.number_steps(kSteps);
}

// Of the operation's own numbers, so that others can tell where this rank is; odd and even in
// turns, as posts want it.
std::uint64_t HierTransport::next_step(const Request& request) {
  const std::uint64_t least = std::max(local_seq_ + 1, request.told().seq * kSteps);
  local_seq_ = least + (least % 2 == local_seq_ % 2 ? 1 : 0);
  return local_seq_;
}

Result<std::shared_ptr<Pending>> HierTransport::start(const Request& request) {
  const bool in_steps = request.kind == Kind::all_reduce && across_;
  auto done = in_steps ? all_reduce(request) : not_in_steps(request);
  if (!done) {
    mesh_->report(done.error());
    return std::unexpected(mesh_->failure().value_or(done.error()));
  }
  return nullptr;
}

// Who is waited for in a step may itself wait for a rank in the step before, and is the first to
// know whom all wait for: it has the time to say so.
Request HierTransport::later(const Request& request, int step) {
  Request out = request;
  out.deadline += step * kTimeToTell;
  return out;
}

// Over TCP, which a rank of this host that sums in steps does not look at.
Result<void> HierTransport::not_in_steps(const Request& request) {
  Request here = request;
  here.seq = next_step(request);
  here.asked = &request;
  const auto agreed = local_.agree(here);
  return agreed ? all_.run(later(request, 1)) : agreed;
}

// Every element in the same order, whatever its place and the count: what does not divide by the
// ranks of a host goes through the same steps, filled up.
Result<void> HierTransport::all_reduce(const Request& request) {
  const std::size_t each = segment_.size();
  const std::size_t width = size_of(request.dtype);
  const std::uint64_t over = request.count % each;
  // A second time through the steps costs more than to copy this much.
  const bool small = over != 0 && request.count * width <= kFillUp;
  const std::uint64_t whole = small ? 0 : request.count - over;
  if (whole != 0 || over == 0) {
    Request divides = request;
    divides.asked = &request;
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
  Request rest = request;
  rest.asked = &request;
  rest.count = count * segment_.size();
  rest.in = filled_up_.data();
  rest.out = filled_up_.data();
  auto summed = sum_in_steps(rest);
  if (summed) {
    std::memcpy(static_cast<char*>(request.out) + first * width, filled_up_.data(), bytes);
  }
  return summed;
}

// Each rank sums one part of the buffer over its host, then over the hosts, then all of a host
// collect the parts.
Result<void> HierTransport::sum_in_steps(const Request& request) {
  const std::size_t width = size_of(request.dtype);
  const std::uint64_t part = request.count / segment_.size();
  char* const mine = static_cast<char*>(request.out) + segment_.self() * part * width;
  // Partial sums: what makes the operation's result of them is done once, between hosts or before.
  const bool premul = request.op == Op::premul_sum;
  Request inside = request;
  inside.kind = Kind::reduce_scatter;
  inside.op = request.op == Op::avg ? Op::sum : request.op;
  inside.count = part;
  inside.seq = next_step(request);
  // Straight into our part of out; in place where in is out.
  inside.out = mine;
  if (auto summed = local_.run(inside); !summed) {
    return summed;
  }
  Request between = later(request, 1);
  between.op = premul ? Op::sum : request.op;
  between.scale = premul ? 1 : request.scale;
  between.count = part;
  between.in = mine;
  between.out = mine;
  between.average_over = static_cast<std::uint64_t>(mesh_->size());
  if (auto summed = across_->run(between); !summed) {
    return summed;
  }
  Request collect = later(request, 2);
  collect.kind = Kind::all_gather;
  collect.op = Op::sum;
  collect.scale = 1;
  collect.count = part;
  collect.in = mine;
  collect.seq = next_step(request);
  return local_.run(collect);
}

}  // namespace muster::collective
