// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp_transport.hpp"

#include "collective/tcp_message.hpp"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>

namespace muster::collective {
namespace {

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

// Over TCP, which a rank of this host that sums in steps does not look at.
Result<void> HierTransport::not_in_steps(const Request& request) {
  Request here = request;
  here.seq = ++local_seq_;
  here.asked = &request;
  const auto agreed = local_.agree(here);
  return agreed ? all_.run(request) : agreed;
}

// Each rank sums one part of the buffer over its host, then over the hosts, then all of a host
// collect the parts.
Result<void> HierTransport::all_reduce(const Request& request) {
  const std::size_t width = size_of(request.dtype);
  const std::uint64_t part = request.count / segment_.size();
  const std::uint64_t whole = part * segment_.size();
  auto* const out = static_cast<char*>(request.out);
  char* const mine = out + segment_.self() * part * width;
  // Partial sums: what makes the operation's result of them is done once, between hosts or before.
  const bool premul = request.op == Op::premul_sum;
  Request inside = request;
  inside.asked = &request;
  inside.kind = Kind::reduce_scatter;
  inside.op = request.op == Op::avg ? Op::sum : request.op;
  inside.count = part;
  inside.seq = ++local_seq_;
  // Straight into our part of out; in place where in is out.
  inside.out = mine;
  if (auto summed = local_.run(inside); !summed) {
    return summed;
  }
  Request between = request;
  between.asked = &request;
  between.op = premul ? Op::sum : request.op;
  between.scale = premul ? 1 : request.scale;
  between.count = part;
  between.in = mine;
  between.out = mine;
  between.average_over = static_cast<std::uint64_t>(mesh_->size());
  if (auto summed = across_->run(between); !summed) {
    return summed;
  }
  Request collect = request;
  collect.asked = &request;
  collect.kind = Kind::all_gather;
  collect.op = Op::sum;
  collect.scale = 1;
  collect.count = part;
  collect.in = mine;
  collect.seq = ++local_seq_;
  if (auto collected = local_.run(collect); !collected) {
    return collected;
  }
  return whole == request.count ? Result<void>() : rest_of_sum(request, whole);
}

Result<void> HierTransport::rest_of_sum(const Request& request, std::uint64_t first) {
  const std::size_t shift = first * size_of(request.dtype);
  Request rest = request;
  rest.asked = &request;
  rest.count = request.count - first;
  rest.in = static_cast<const char*>(request.in) + shift;
  rest.out = static_cast<char*>(request.out) + shift;
  return all_.run(rest);
}

}  // namespace muster::collective
