// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/shm_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace muster::collective {
namespace {

// State common to sender and receiver: the ring and the progress of this message.
class Ring : public Transfer {
 public:
  Ring(Segment& segment, const Request& request, std::size_t from, std::size_t to)
      : segment_(segment),
        request_(request),
        channel_(segment.channel(from, to)),
        slots_(reinterpret_cast<char*>(&channel_) + sizeof(Channel)),
        room_(segment.plan().layout.piece - sizeof(PieceHead)),
        bytes_(request.count * size_of(request.dtype)) {}

 protected:
  [[nodiscard]] char* slot(std::uint64_t piece) const {
    return slots_ + piece % kChannelSlots * segment_.plan().layout.piece;
  }

  // An empty message still sends one empty piece.
  [[nodiscard]] Step after(std::size_t piece_bytes) {
    at_ += piece_bytes;
    segment_.notify();
    return at_ == bytes_ ? Step::done : Step::moved;
  }

  Segment& segment_;
  Request request_;
  Channel& channel_;
  char* slots_;
  std::size_t room_;
  std::size_t bytes_;
  std::size_t at_ = 0;
};

class Send final : public Ring {
 public:
  using Ring::Ring;

  [[nodiscard]] Result<Step> step() override {
    // Only the sender stores `written` and only the receiver stores `taken`, so each loads its own
    // counter relaxed. The acquire load of the other's counter pairs with its release store. After
    // this load, the receiver has finished reading the slot that we are about to write.
    const std::uint64_t written = channel_.written.load(std::memory_order_relaxed);
    if (written - channel_.taken.load(std::memory_order_acquire) >= kChannelSlots) {
      return Step::stuck;
    }
    const PieceHead head{request_.count,
                         static_cast<std::uint32_t>(request_.dtype),
                         static_cast<std::uint32_t>(std::min(room_, bytes_ - at_))};
    char* const to = slot(written);
    std::memcpy(to, &head, sizeof(head));
    if (head.bytes > 0) {
      std::memcpy(to + sizeof(head), static_cast<const char*>(request_.in) + at_, head.bytes);
    }
    // Store this last: a receiver that sees the number also sees the piece.
    channel_.written.store(written + 1, std::memory_order_release);
    return after(head.bytes);
  }
};

class Receive final : public Ring {
 public:
  using Ring::Ring;

  [[nodiscard]] Result<Step> step() override {
    const std::uint64_t taken = channel_.taken.load(std::memory_order_relaxed);
    if (channel_.written.load(std::memory_order_acquire) == taken) {
      return Step::stuck;
    }
    PieceHead head{};
    std::memcpy(&head, slot(taken), sizeof(head));
    if (head.count != request_.count || head.dtype != static_cast<std::uint32_t>(request_.dtype)) {
      return std::unexpected(mismatch(head));
    }
    const std::size_t bytes = std::min<std::size_t>(head.bytes, bytes_ - at_);
    if (bytes > 0) {
      std::memcpy(static_cast<char*>(request_.out) + at_, slot(taken) + sizeof(head), bytes);
    }
    // Store this last: after it, the sender may overwrite this slot.
    channel_.taken.store(taken + 1, std::memory_order_release);
    return after(bytes);
  }

 private:
  [[nodiscard]] Error mismatch(const PieceHead& head) const {
    Error error{.code = Errc::mismatch, .rank = request_.root, .seq = request_.seq};
    error.text = fmt::format("the ranks disagree: rank {} sent {}[{}], rank {} called {}",
                             request_.root,
                             name_of(static_cast<DType>(head.dtype)),
                             head.count,
                             segment_.plan().ranks[segment_.self()],
                             request_.describe());
    segment_.report(error);
    return segment_.failure().value_or(error);
  }
};

}  // namespace

Result<std::shared_ptr<Pending>> ShmTransport::start(const Request& request) {
  MUSTER_RETURN_IF_ERROR(shm_.run(Step(request)));
  return nullptr;
}

Result<std::unique_ptr<Transfer>> ShmTransport::begin(const Request& request) {
  if (auto error = segment_.failure()) {
    return std::unexpected(std::move(*error));
  }
  const auto other = static_cast<std::size_t>(request.root);
  const std::size_t self = segment_.self();
  if (request.kind == Kind::send) {
    return std::make_unique<Send>(segment_, request, self, other);
  }
  return std::make_unique<Receive>(segment_, request, other, self);
}

void ShmTransport::rest(int round) {
  // There is no wake-up condition, because the queue may have many transfers. A piece that arrives
  // after the last check but before the sleep is registered does not wake us, so it may be delayed
  // by the longest sleep.
  segment_.rest(round, [] { return false; });
}

}  // namespace muster::collective
