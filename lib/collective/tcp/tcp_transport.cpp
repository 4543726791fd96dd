// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/tcp_transport.hpp"

#include "collective/tcp/tcp_message.hpp"

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
    : mesh_(std::move(mesh)), lanes_(*mesh_), all_(lanes_, all_ranks(mesh_->size())) {}

TcpTransport::~TcpTransport() {
  // Memory from alloc() is valid only until the communicator is destroyed.
  for (const auto& [memory, bytes] : allocated_) {
    ::munmap(memory, bytes);
  }
}

Result<std::shared_ptr<Pending>> TcpTransport::start(const Request& request) {
  // The operation is complete when run() returns, so no Pending is needed.
  MUSTER_RETURN_IF_ERROR(all_.run(Step(request)));
  return nullptr;
}

Result<void*> TcpTransport::alloc(std::size_t bytes) {
  // mmap() rejects a length of 0. The memory that mmap() returns is zeroed and page-aligned, as
  // alloc() guarantees.
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return std::unexpected(
        system_failure("cannot allocate " + std::to_string(bytes) + " bytes of memory", errno));
  }
  allocated_[memory] = size;
  return memory;
}

Result<void> TcpTransport::free(void* memory) {
  const auto found = allocated_.find(memory);
  if (found == allocated_.end()) {
    return failure(Errc::invalid_argument, "free: this pointer was not returned by alloc");
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
  // Poll for new messages and buffer space every millisecond.
  static_cast<void>(::poll(nullptr, 0, 1));
}

}  // namespace muster::collective
