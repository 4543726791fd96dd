// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_pending.hpp"

#include "base/clock.hpp"
#include "collective/nccl/planted.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::collective::nccl {
namespace {

// Poll eagerly at first, because short operations complete soon. Then sleep between polls, so that
// longer operations use no CPU.
constexpr int kEagerAsks = 100;
constexpr Duration kFirstRest = std::chrono::microseconds(20);
constexpr Duration kLongestRest = std::chrono::microseconds(500);

}  // namespace

bool NcclPending::passed() const {
  if (finished_) {
    return true;
  }
  const auto reached = end.passed();
  if (!reached) {
    static_cast<void>(state_->kill(reached.error()));
    return false;
  }
  if (!*reached) {
    return false;
  }
  // The GPU also reaches the end of an operation that NCCL has aborted. The results are valid only
  // if NCCL reports no error after that.
  state_->look();
  if (!state_->dead()) {
    finished_ = true;
  }
  return finished_;
}

bool NcclPending::done() const {
  const CurrentDevice current(state_->device());
  return passed() || state_->aborted();
}

Result<void> NcclPending::wait(Duration timeout) {
  const CurrentDevice current(state_->device());
  const TimePoint from = steady_now();
  Duration rest = kFirstRest;
  for (int asked = 0; !passed(); ++asked) {
    if (auto error = state_->dead()) {
      // The GPU may access the caller's buffers until the abort has completed.
      if (!planted("error before the abort ends")) {
        state_->wait_for_abort();
      }
      return std::unexpected(*std::move(error));
    }
    const Duration waited = steady_now() - from;
    if (timeout > Duration::zero() && waited >= timeout) {
      return std::unexpected(
          Error{.code = Errc::timeout,
                .epoch = state_->setup().speaker.epoch,
                .seq = request_.seq,
                .text = fmt::format("{} has not completed within {}; it continues",
                                    request_.describe(),
                                    muster::describe(timeout))});
    }
    if (asked >= kEagerAsks) {
      state_->pause(rest);
      rest = std::min(2 * rest, kLongestRest);
    }
  }
  return {};
}

Result<void> NcclPending::wait_stream(void* stream) {
  if (finished_) {
    return {};
  }
  if (auto error = state_->dead()) {
    return std::unexpected(*std::move(error));
  }
  const CurrentDevice current(state_->device());
  return end.hold(static_cast<CUstream>(stream));
}

Underway::At NcclPending::at() const {
  return end.passed().value_or(false)     ? At::end
         : ready.passed().value_or(false) ? At::operation
                                          : At::caller;
}

void NcclPending::look_at_start(TimePoint now, Progress* progress) {
  if (clock_.has_started() || !ready.passed().value_or(false)) {
    return;
  }
  clock_.started(now);
  if (progress != nullptr) {
    progress->started(request_);
  }
}

std::optional<Error> NcclPending::disagreement() const {
  const auto& ask = state_->setup().disagreement;
  return ask ? ask(request_) : std::nullopt;
}

Error NcclPending::late() const {
  const auto& positions = state_->setup().positions;
  const std::string where = positions ? positions() : "";
  return {
      .code = Errc::timeout,
      .epoch = state_->setup().speaker.epoch,
      .seq = request_.seq,
      .text = fmt::format("{}: {} {}; a rank has not called it, or is hung{}",
                          describe(state_->setup().speaker),
                          request_.describe(),
                          clock_.has_started()
                              ? fmt::format("did not complete within {} after the GPU started it",
                                            muster::describe(clock_.timeout()))
                              : "was queued, but the GPU has not started it",
                          where.empty() ? "" : "; on this host: " + where)};
}

}  // namespace muster::collective::nccl
