// SPDX-License-Identifier: Apache-2.0
// Segment: memory shared by the ranks on one host, with posts, staging memory, liveness words and
// the fatal error. Implements waiting (spin, yield, sleep). The kernel frees it when the last rank
// exits. Resource type; one thread at a time, except for failure() and report().
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
  std::vector<int> ranks;  // the ranks on this host, in communicator order
  std::size_t self = 0;    // our index in `ranks`
  std::uint64_t epoch = 0;
  SegmentLayout layout;
  std::uint64_t arena_bytes = 0;   // per rank
  std::uint64_t flight_bytes = 0;  // per rank, for the flight recorder
  std::string name;
};

class Segment final : public PeerWatch {
 public:
  using Joined = Result<std::unique_ptr<Segment>>;
  // Returns when all ranks on this host have arrived.
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

  // Memory for buffers that operations use without a copy: plan().arena_bytes per rank.
  [[nodiscard]] SharedMemory& arena() { return arena_; }

  // The flight recorders of the ranks on this host, one after another. Every rank maps all of them.
  [[nodiscard]] SharedMemory& flights() { return flights_; }

  // Waits until `missing()`, the index of a rank that is still missing, is negative.
  template <class Missing>
  [[nodiscard]] Result<void> wait(const Step& step, const Missing& missing);

  // Polls briefly; true if the condition is met. Skipped if ranks have to share CPUs.
  template <class Missing>
  [[nodiscard]] bool comes_soon(const Missing& missing) const;

  // Returns the error that ends a wait for the rank at index `missing` (negative for no rank), if
  // any: a death, an abort, the deadline, or `left`. The caller must read left() *before* it checks
  // whether that rank has done its part. The first error becomes the error of all ranks.
  [[nodiscard]] std::optional<Error> look(const Step& step, int missing, bool left);

  // Whether the rank has left. A rank may leave after it has done its part.
  [[nodiscard]] bool left(int place) const {
    return place >= 0 && members_[static_cast<std::size_t>(place)]->state.load() == kLeft;
  }

  // Backs off between two checks in loops that do not use wait(): spins, yields, and after enough
  // rounds sleeps for at most 20 ms, unless `ready()` is true.
  template <class Ready>
  void rest(int round, const Ready& ready);

  // Call after a store that others may wait for. The fence pairs with the one in rest(). One rank
  // stores and then checks for sleepers; the other registers as a sleeper and then checks the
  // stored value, so at least one of the two sees the other. With acquire and release alone, a load
  // may be reordered before an earlier store, so both could miss, and the sleeper would sleep for
  // 20 ms.
  void notify() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (header_->sleepers.load(std::memory_order_relaxed) != 0) {
      wake_sleepers();
    }
  }

  void wake_sleepers();
  [[nodiscard]] std::optional<Error> failure() const override;
  void report(const Error& error) override;

  void number_steps(std::uint64_t steps) { steps_ = steps; }  // per operation

  // The state of each rank, one line per rank.
  [[nodiscard]] std::string describe() const;

 private:
  static constexpr int kSoon = 16;
  static constexpr int kSpins = 256;  // spins between two checks for errors

  Segment(SegmentPlan plan, const std::vector<SharedMemory>& memories, char* base);

  struct Shared {
    std::vector<SharedMemory> memories;
    std::optional<FdGiver> giver;  // set only in the host's first rank
  };

  [[nodiscard]] static Result<Shared> share_memory(const BootstrapContext& context,
                                                   const SegmentPlan& plan);
  [[nodiscard]] static Joined join(const BootstrapContext& context,
                                   SegmentPlan plan,
                                   Shared& shared);
  void come();
  [[nodiscard]] Result<void> await_all(const BootstrapContext& context);
  [[nodiscard]] Error death(std::size_t found) const;
  [[nodiscard]] bool dead(std::size_t place) const;
  [[nodiscard]] Error timed_out(const Step& step, int missing) const;
  [[nodiscard]] Error has_left(const Step& step, int missing) const;
  [[nodiscard]] std::string where(std::size_t i) const;
  // Yields; returns true when it is time to sleep.
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
      // A rank may complete its part after `still` was read, and die before look() runs.
      return missing() < 0 ? Result<void>() : std::unexpected(std::move(*error));
    }
    rest(round, [&missing] { return missing() < 0; });
  }
}

template <class Ready>
void Segment::rest(int round, const Ready& ready) {
  if (should_sleep(round)) {
    header_->sleepers.fetch_add(1);
    // Read before calling `ready`, so that a later change makes the futex wait return immediately.
    const std::uint32_t wake_seq = header_->wake_seq.load();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready()) {
      sleep_until_notified(wake_seq);
    }
    header_->sleepers.fetch_sub(1);
  }
}

}  // namespace muster::collective
