// SPDX-License-Identifier: Apache-2.0
// Segment: what the ranks of one host share: posts, staging, who lives, why all has ended, and the
// waiting for each other (spin, yield, sleep). Nothing of it outlives the last rank. Resource type;
// one thread at a time but for failure() and report().
#pragma once

#include "base/futex.hpp"
#include "collective/bootstrap/bootstrap.hpp"
#include "collective/shm/fd_exchange.hpp"
#include "collective/shm/liveness.hpp"
#include "collective/shm/segment_page.hpp"
#include "collective/shm/shared_memory.hpp"
#include "collective/transport/peer_watch.hpp"
#include "collective/transport/step.hpp"

#include <memory>
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
  [[nodiscard]] static Joined join(const BootstrapContext& context, SegmentPlan plan);
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
  [[nodiscard]] Result<void> wait(const Step& step, const Missing& missing);

  // Whether a wait is over after a look or two, where nobody is kept from running by them.
  template <class Missing>
  [[nodiscard]] bool comes_soon(const Missing& missing) const;

  // What ends an operation that waits for the rank at place `missing` (negative: for nobody): a
  // death, an abort, the deadline, and that it has left, which the caller has seen *before* it
  // looked whether the rank had done its part. The first such error is everybody's.
  [[nodiscard]] std::optional<Error> look(const Step& step, int missing, bool left);

  // Also a rank that has done its part may leave.
  [[nodiscard]] bool left(int place) const {
    return place >= 0 && members_[static_cast<std::size_t>(place)]->state.load() == kLeft;
  }

  // Between two looks of somebody who does not wait by wait(): spins, yields, and after enough
  // rounds sleeps, 20 ms at most, unless `ready()`.
  template <class Ready>
  void rest(int round, const Ready& ready);

  // After a store that others may wait for. The fence pairs with that in rest(): of a rank that
  // stores and looks for sleepers, and one that counts itself as a sleeper and looks at the store,
  // at least one sees the other. With release and acquire alone both could miss, since a load may
  // pass an earlier store to another address; then nobody would wake the sleeper for 20 ms.
  void notify() {
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

  [[nodiscard]] static Result<Shared> share_memory(const BootstrapContext& context,
                                                   const SegmentPlan& plan);
  [[nodiscard]] static Joined join(const BootstrapContext& context,
                                   SegmentPlan plan,
                                   Shared& shared);
  void come();
  [[nodiscard]] Result<void> await_all(const BootstrapContext& context);
  [[nodiscard]] Error death(std::size_t found) const;

  [[nodiscard]] bool dead(std::size_t place) const {
    return (member(place).life.load(std::memory_order_relaxed) & kOwnerDied) != 0;
  }

  [[nodiscard]] Error timed_out(const Step& step, int missing) const;
  [[nodiscard]] Error has_left(const Step& step, int missing) const;
  [[nodiscard]] std::string where(std::size_t i) const;
  // Yields, or says that it is time to sleep.
  [[nodiscard]] bool should_sleep(int round) const;
  void sleep_until_notified(std::uint32_t wake_seq);
  SegmentPlan plan_;
  SharedMemory memory_;
  SharedMemory arena_;
  SharedMemory flights_;
  char* base_;
  SegmentHeader* header_;
  std::vector<Member*> members_;
  bool has_processor_each_;
  std::uint64_t steps_ = 1;
  std::optional<Liveness> liveness_;
};

template <class Missing>
bool Segment::comes_soon(const Missing& missing) const {
  for (int i = 0; has_processor_each_ && i < kSoon; ++i) {
    if (missing() < 0) {
      return true;
    }
    cpu_relax();
  }
  return false;
}

template <class Missing>
Result<void> Segment::wait(const Step& step, const Missing& missing) {
  for (int round = 0;; ++round) {
    for (int i = 0; i < kSpins; ++i) {
      if (missing() < 0) [[likely]] {
        return {};
      }
      cpu_relax();
    }
    const int who = missing();
    const bool gone = left(who);
    const int still = missing();
    auto error = still < 0 ? std::nullopt : look(step, still, gone && still == who);
    if (error) {
      return std::unexpected(std::move(*error));
    }
    rest(round, [&missing] { return missing() < 0; });
  }
}

template <class Ready>
void Segment::rest(int round, const Ready& ready) {
  if (should_sleep(round)) {
    header_->sleepers.fetch_add(1);
    // Before `ready` is asked: a change after this ends the sleep at once, as the futex compares.
    const std::uint32_t wake_seq = header_->wake_seq.load();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready()) {
      sleep_until_notified(wake_seq);
    }
    header_->sleepers.fetch_sub(1);
  }
}

}  // namespace muster::collective
