// SPDX-License-Identifier: Apache-2.0
#include "collective/work.hpp"

#include "collective/bootstrap/process_life.hpp"

#include <utility>

namespace muster::collective {
namespace {

Result<void> inherited() {
  return failure(Errc::invalid_state,
                 "this process was forked while the operation was pending; only the parent "
                 "process may wait for it. Wait before the fork, or in the parent");
}

}  // namespace

Work::Work(std::uint64_t seq, std::shared_ptr<Pending> pending)
    : seq_(seq), pending_(std::move(pending)), generation_(pending_ ? fork_generation() : 0) {}

bool Work::is_done() const {
  return generation_ != fork_generation() || pending_->done();
}

Result<void> Work::wait(Duration timeout) const {
  if (!pending_) {
    return {};
  }
  return generation_ == fork_generation() ? pending_->wait(timeout) : inherited();
}

Result<void> Work::wait_stream(void* stream) const {
  if (!pending_) {
    return {};
  }
  return generation_ == fork_generation() ? pending_->wait_stream(stream) : inherited();
}

}  // namespace muster::collective
