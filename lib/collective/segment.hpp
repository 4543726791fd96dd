// SPDX-License-Identifier: Apache-2.0
// Segment: what the ranks of one host share: posts, staging, who lives, why all has ended, and the
// waiting for each other (spin, yield, sleep). Nothing of it outlives the last rank. Resource type;
// one thread at a time but for failure() and report().
#pragma once

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "collective/bootstrap.hpp"
#include "collective/fd_exchange.hpp"
#include "collective/liveness.hpp"
#include "collective/segment_page.hpp"
#include "collective/shared_memory.hpp"
#include "collective/transport.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::collective {

struct SegmentPlan {
  std::vector<int> ranks;  // of this host, in the order of the communicator
  std::size_t self = 0;    // our place among them
  std::uint64_t epoch = 0;
  SegmentLayout layout;
  std::uint64_t arena_bytes = 0;   // per rank
  std::uint64_t flight_bytes = 0;  // of a rank's flight recorder
  std::string name;
};

class Segment final : public PeerWatch {
 public:
  using Joined = Result<std::unique_ptr<Segment>>;
  // Returns when all ranks of this host are here.
  [[nodiscard]] static Joined join(const Meeting& meeting, SegmentPlan plan);
  ~Segment() override;

  [[nodiscard]] std::size_t self() const { return plan_.self; }

  [[nodiscard]] std::size_t size() const { return plan_.ranks.size(); }

  [[nodiscard]] Member& member(std::size_t i) const { return *members_[i]; }

  [[nodiscard]] Member& me() const { return *members_[plan_.self]; }

  [[nodiscard]] Post& post(std::size_t i, std::uint64_t seq) const {
    return *reinterpret_cast<Post*>(base_ + plan_.layout.post_at(i, seq));
  }

  [[nodiscard]] char* post_data(std::size_t i, std::uint64_t seq) const {
    return base_ + plan_.layout.post_at(i, seq) + sizeof(Post);
  }

  [[nodiscard]] char* staging(std::size_t i) const { return base_ + plan_.layout.staging_at(i); }

  [[nodiscard]] Channel& channel(std::size_t from, std::size_t to) const {
    return *reinterpret_cast<Channel*>(base_ + plan_.layout.channel_at(from, to));
  }

  [[nodiscard]] const SegmentPlan& plan() const { return plan_; }

  // Room for buffers that operations use without a copy: plan().arena_bytes for each rank.
  [[nodiscard]] SharedMemory& arena() { return arena_; }

  // The flight recorders of the ranks of this host, one after the other: whoever lives has all.
  [[nodiscard]] SharedMemory& flights() { return flights_; }

  // Until `missing()` is negative; else it is the place of a rank that is waited for.
  template <class Missing>
  [[nodiscard]] Result<void> wait(const Request& request, const Missing& missing);

  // Whether a wait is over after a look or two, where nobody is kept from running by them.
  template <class Missing>
  [[nodiscard]] bool comes_soon(const Missing& missing) const;

  // What ends an operation that waits for the rank at place `missing` (negative: for nobody): a
  // death, an abort, the deadline, and that it has left, which the caller has seen *before* it
  // looked whether the rank had done its part. The first such error is everybody's.
  [[nodiscard]] std::optional<Error> look(const Request& request, int missing, bool left);

  // Also a rank that has done its part may leave.
  [[nodiscard]] bool left(int place) const {
    return place >= 0 && members_[static_cast<std::size_t>(place)]->state.load() == kLeft;
  }

  // Between two looks of somebody who does not wait by wait(): spins, yields, and after enough
  // rounds sleeps, 20 ms at most, unless `ready()`.
  template <class Ready>
  void rest(int round, const Ready& ready);

  // After a store that others may wait for.
  void ring() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (header_->sleepers.load(std::memory_order_relaxed) != 0) {
      wake_sleepers();
    }
  }

  void wake_sleepers();
  [[nodiscard]] std::optional<Error> failure() const override;
  void report(const Error& error) override;

  void number_steps(std::uint64_t steps) { steps_ = steps; }  // of one operation

  // One line for each rank: where it is.
  [[nodiscard]] std::string describe() const;

 private:
  static constexpr int kSoon = 16;
  static constexpr int kSpins = 256;  // between two looks at what else may have happened

  Segment(SegmentPlan plan, const std::vector<SharedMemory>& memories, char* base);

  struct Shared {
    std::vector<SharedMemory> memories;
    std::optional<FdGiver> giver;  // of the first rank of the host
  };

  [[nodiscard]] static Result<Shared> share_memory(const Meeting& meeting, const SegmentPlan& plan);
  [[nodiscard]] static Joined join(const Meeting& meeting, SegmentPlan plan, Shared& shared);
  void come();
  [[nodiscard]] Result<void> await_all(const Meeting& meeting);
  [[nodiscard]] Error death(std::size_t place) const;

  [[nodiscard]] bool dead(std::size_t place) const {
    return (member(place).life.load(std::memory_order_relaxed) & kOwnerDied) != 0;
  }

  [[nodiscard]] Error timed_out(const Request& request, int missing) const;
  [[nodiscard]] Error has_left(const Request& request, int missing) const;
  [[nodiscard]] std::string where(std::size_t i) const;
  // Yields, or says that it is time to sleep.
  [[nodiscard]] bool tired(int round) const;
  void doze(std::uint32_t bell);
  SegmentPlan plan_;
  SharedMemory memory_;
  SharedMemory arena_;
  SharedMemory flights_;
  char* base_;
  SegmentHeader* header_;
  std::vector<Member*> members_;
  bool roomy_;
  std::uint64_t steps_ = 1;
  std::optional<Liveness> liveness_;
};

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class Missing>
bool Segment::comes_soon(const Missing& missing) const {
  for (int i = 0; roomy_ && i < kSoon; ++i) {
    if (missing() < 0) {
      return true;
    }
    relax();
  }
  return false;
}

template <class Missing>
Result<void> Segment::wait(const Request& request, const Missing& missing) {
  for (int round = 0;; ++round) {
    for (int i = 0; i < kSpins; ++i) {
      if (missing() < 0) [[likely]] {
        return {};
      }
      relax();
    }
    const int who = missing();
    const bool gone = left(who);
    const int still = missing();
    if (auto error = look(request, still, gone && still == who)) {
      return std::unexpected(std::move(*error));
    }
    rest(round, [&missing] { return missing() < 0; });
  }
}

template <class Ready>
void Segment::rest(int round, const Ready& ready) {
  if (tired(round)) {
    header_->sleepers.fetch_add(1);
    const std::uint32_t bell = header_->bell.load();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready()) {
      doze(bell);
    }
    header_->sleepers.fetch_sub(1);
  }
}

}  // namespace muster::collective
