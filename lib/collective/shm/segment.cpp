// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/segment.hpp"

#include "base/clock.hpp"
#include "collective/bootstrap/death_notice.hpp"
#include "collective/bootstrap/start_watch.hpp"
#include "collective/shm/fd_exchange.hpp"
#include "rendezvous/client/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include <sched.h>
#include <unistd.h>

namespace muster::collective {
namespace {

// Longest sleep. It bounds the delay if a wake-up is lost, for example because the kernel woke only
// a rank that died too. Checking is cheap.
constexpr Duration kLongestSleep = std::chrono::milliseconds(20);
constexpr int kSpinRounds = 4;
constexpr int kYieldRounds = 80;
// If a yield takes longer than this, another thread has used this CPU. If that thread is the rank
// that we wait for, sleeping is faster than sharing: the woken rank gets an idle CPU and keeps it.
constexpr Duration kYieldAlone = std::chrono::microseconds(4);

// If the host's first rank cannot create the memory, it publishes this prefix and the reason
// instead of the memory's identifier.
constexpr std::string_view kNoMemory = "! ";

// Number of memory objects: one each for the segment, alloc()'s arena and the flight recorders.
constexpr std::size_t kMemories = 3;

// Whether each rank can have its own CPU.
bool has_processor_each(std::size_t ranks) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  // The call fails on hosts with more CPUs than cpu_set_t can hold. Such hosts are assumed to have
  // enough CPUs.
  const bool known = ::sched_getaffinity(0, sizeof(cpus), &cpus) == 0;
  return !known || static_cast<std::size_t>(CPU_COUNT(&cpus)) >= ranks;
}

std::string memory_key(const BootstrapContext& context, const SegmentPlan& plan) {
  return fmt::format("{}memory/{}", context.prefix, plan.ranks[0]);
}

Result<std::vector<SharedMemory>> take_memory(const BootstrapContext& context,
                                              const SegmentPlan& plan) {
  const int giver = plan.ranks[0];
  const auto names = await_keys(
      context,
      {memory_key(context, plan)},
      fmt::format("rank {}: waiting for the shared memory of rank {}", context.rank, giver));
  if (!names) {
    Error error = names.error();
    error.rank = error.code == Errc::timeout && error.rank < 0 ? giver : error.rank;
    return std::unexpected(std::move(error));
  }
  const std::string& word = (*names)[0];
  if (word.starts_with(kNoMemory)) {
    return std::unexpected(Error{
        .code = Errc::peer_failed,
        .rank = giver,
        .text = fmt::format("rank {} could not start: {}", giver, word.substr(kNoMemory.size()))});
  }
  auto fds = take_fds(word, context.rank, kMemories, context.deadline);
  if (!fds) {
    if (auto seen = context.watch != nullptr ? context.watch->reason() : std::nullopt) {
      return std::unexpected(std::move(*seen));
    }
    fds.error().rank = giver;
    fds.error().text = fmt::format("rank {}: {}", giver, fds.error().text);
    return std::unexpected(std::move(fds.error()));
  }
  std::vector<SharedMemory> out;
  for (auto& fd : *fds) {
    auto memory = SharedMemory::attach(std::move(fd));
    MUSTER_RETURN_IF_ERROR(memory);
    out.push_back(std::move(*memory));
  }
  return out;
}

Result<std::vector<SharedMemory>> make_memory(const SegmentPlan& plan) {
  std::vector<SharedMemory> out;
  const std::string name = "muster-" + plan.name;
  const std::array<std::pair<std::string, std::uint64_t>, kMemories> wanted{
      {{name, plan.layout.total()},
       {name, plan.arena_bytes * plan.ranks.size()},
       {"flight-" + plan.name, plan.flight_bytes * plan.ranks.size()}}};
  for (const auto& [called, bytes] : wanted) {
    auto memory = SharedMemory::create(called, bytes);
    MUSTER_RETURN_IF_ERROR(memory);
    out.push_back(std::move(*memory));
  }
  MUSTER_RETURN_IF_ERROR(out[0].reserve(0, plan.layout.reserved()));
  return out;
}

// If several ranks are dead, returns the rank that died first. After the first death, the launcher
// kills all other ranks.
std::size_t first_dead(const std::vector<Member*>& members, std::size_t found) {
  const pid_t first = first_dead_worker();
  for (std::size_t i = 0; first != 0 && i < members.size(); ++i) {
    if (members[i]->pid == first) {
      return i;
    }
  }
  return found;
}

}  // namespace

Segment::Segment(SegmentPlan plan, const std::vector<SharedMemory>& memories, char* base)
    : plan_(std::move(plan)),
      memory_(memories[0]),
      arena_(memories[1]),
      flights_(memories[2]),
      base_(base),
      header_(reinterpret_cast<SegmentHeader*>(base)),
      has_processor_each_(has_processor_each(plan_.ranks.size())) {
  for (std::size_t i = 0; i < plan_.ranks.size(); ++i) {
    members_.push_back(reinterpret_cast<Member*>(base_ + plan_.layout.member_at(i)));
  }
}

Segment::~Segment() {
  // Set kLeft before waking, because a rank that waits for us must see it when it checks.
  liveness_.reset();
  notify();
}

Result<Segment::Shared> Segment::share_memory(const BootstrapContext& context,
                                              const SegmentPlan& plan) {
  if (plan.self != 0) {
    auto taken = take_memory(context, plan);
    return taken ? Result<Shared>({std::move(*taken), std::nullopt})
                 : std::unexpected(taken.error());
  }
  auto made = make_memory(plan);
  if (plan.ranks.size() == 1) {
    return made ? Result<Shared>({std::move(*made), std::nullopt}) : std::unexpected(made.error());
  }
  const std::string word = random_word();
  auto giver = made ? FdGiver::open(word) : std::unexpected(made.error());
  // Publish the identifier, or the error, immediately.
  const std::string answer = giver ? word : std::string(kNoMemory) + giver.error().text;
  if (auto set = context.store->set(memory_key(context, plan), answer); !set) {
    return std::unexpected(wrap(Errc::store, "cannot publish the shared memory", set.error()));
  }
  MUSTER_RETURN_IF_ERROR(giver);
  return Shared{std::move(*made), std::move(*giver)};
}

Segment::Joined Segment::join(const BootstrapContext& context, SegmentPlan plan) {
  auto shared = share_memory(context, plan);
  auto joined =
      shared ? join(context, std::move(plan), *shared) : std::unexpected(std::move(shared.error()));
  if (!joined && context.watch != nullptr) {
    context.watch->tell(joined.error());  // report before closing the giver's socket
  }
  return joined;
}

Segment::Joined Segment::join(const BootstrapContext& context, SegmentPlan plan, Shared& shared) {
  std::vector<SharedMemory>& memories = shared.memories;
  const auto base = memories[0].map();
  MUSTER_RETURN_IF_ERROR(base);
  if (memories[0].size() != plan.layout.total()) {
    return collective::failure(Errc::mismatch,
                               "ranks on this host run different versions of muster");
  }
  std::unique_ptr<Segment> segment(new Segment(std::move(plan), memories, *base));
  Segment& s = *segment;
  s.come();
  // Wait for the receivers only after we have arrived ourselves, so that the others blame the rank
  // that is actually missing.
  if (shared.giver) {
    const std::set<int> takers(s.plan_.ranks.begin() + 1, s.plan_.ranks.end());
    const std::vector<int> fds{memories[0].fd(), memories[1].fd(), memories[2].fd()};
    if (auto given = shared.giver->give(fds, takers, context); !given) {
      s.report(given.error());
      return std::unexpected(given.error());
    }
  }
  MUSTER_RETURN_IF_ERROR(s.await_all(context));
  s.liveness_->watch();
  return segment;
}

void Segment::come() {
  // Set these before Liveness stores kHere, so that a rank that reads kHere also sees them.
  me().rank = plan_.ranks[self()];
  me().pid = ::getpid();
  liveness_.emplace(members_, self(), [this](std::size_t dead) { report(death(dead)); });
  notify();
}

Result<void> Segment::await_all(const BootstrapContext& context) {
  const Step joining{Request{.deadline = context.deadline}};
  const auto absent = [this] {
    for (std::size_t i = 0; i < size(); ++i) {
      if (member(i).state.load() == kAbsent) {
        return static_cast<int>(i);
      }
    }
    return -1;
  };
  // A rank that has not arrived does not hold its word yet, so its death cannot be detected here.
  // Until all ranks have arrived, deaths are reported through the store (StartWatch).
  for (int round = 0; absent() >= 0; ++round) {
    if (auto error = look(joining, absent(), false); error && absent() >= 0) {
      return std::unexpected(std::move(*error));
    }
    if (auto seen = context.watch != nullptr ? context.watch->look() : std::nullopt) {
      report(*seen);
      return std::unexpected(failure().value_or(*seen));
    }
    rest(round, [&absent] { return absent() < 0; });
  }
  return {};
}

Error Segment::death(std::size_t found) const {
  const std::size_t place = first_dead(members_, found);
  const Member& dead = member(place);
  return {
      .code = Errc::peer_failed,
      .rank = dead.rank,
      .text = fmt::format("rank {} (pid {}) has died; it {}", dead.rank, dead.pid, where(place))};
}

bool Segment::dead(std::size_t place) const {
  // Acquire: a rank that sees the death also sees what the dead rank posted.
  return (member(place).life.load(std::memory_order_acquire) & kOwnerDied) != 0;
}

void Segment::wake_sleepers() {
  // Bump the number before waking: a rank that read the old value in rest() but is not asleep yet
  // then gets EAGAIN from the futex.
  header_->wake_seq.fetch_add(1);
  futex_wake_all(header_->wake_seq);
}

bool Segment::should_sleep(int round) const {
  if (has_processor_each_ && round < kSpinRounds) {
    return false;
  }
  if (round >= kYieldRounds) {
    return true;
  }
  const auto before = steady_now();
  ::sched_yield();
  return has_processor_each_ && steady_now() - before > kYieldAlone;
}

void Segment::sleep_until_notified(std::uint32_t wake_seq) {
  futex_wait(header_->wake_seq, wake_seq, kLongestSleep);
}

std::optional<Error> Segment::look(const Step& step, int missing, bool left) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    // Check here too, not only in the Liveness thread: the kernel's only wake-up for this death may
    // have gone to a rank that died as well.
    if (dead(i) && !failure()) {
      report(death(i));
    }
  }
  if (auto error = failure()) {
    return error;
  }
  if (missing >= 0 && left) {
    report(has_left(step, missing));
  } else if (missing >= 0 && steady_now() >= step.deadline) {
    report(timed_out(step, missing));
  }
  return failure();
}

Error Segment::timed_out(const Step& step, int missing) const {
  const auto i = static_cast<std::size_t>(missing);
  Error error{.code = Errc::timeout, .rank = plan_.ranks[i], .seq = step.operation().seq};
  // Number 0 is the wait in await_all(), before the first operation.
  error.text = step.seq == 0
                   ? fmt::format("rank {} on this host did not arrive in time", error.rank)
                   : fmt::format("{} timed out on rank {}: rank {} is missing; it {}",
                                 step.operation().describe(),
                                 plan_.ranks[self()],
                                 error.rank,
                                 where(i));
  return error;
}

Error Segment::has_left(const Step& step, int missing) const {
  const auto i = static_cast<std::size_t>(missing);
  return {.code = Errc::peer_failed,
          .rank = plan_.ranks[i],
          .seq = step.operation().seq,
          .text = fmt::format(
              "rank {} has left (exited, or closed its communicator) while rank {} waited "
              "for it in {}",
              plan_.ranks[i],
              plan_.ranks[self()],
              step.operation().describe())};
}

std::string Segment::where(std::size_t i) const {
  // That rank may be posting right now, so the text can mix two operations. It is informational
  // only; no decision depends on it.
  const std::uint64_t done = member(i).completed.load(std::memory_order_relaxed);
  const std::uint64_t even = post(i, 0).seq.load(std::memory_order_acquire);
  const std::uint64_t odd = post(i, 1).seq.load(std::memory_order_acquire);
  const Post& last = post(i, odd > even ? 1 : 0);
  const std::uint64_t number = std::max(odd, even);
  Request at;
  at.set_signature(last.signature);
  at.count = last.count;
  at.root = last.root;
  at.seq = number / steps_;
  if (number > done) {
    return "is in " + at.describe();
  }
  if (done == 0) {
    return "has not completed any operation";
  }
  // A rank that completed a step may already be in the next one, on another backend.
  return steps_ > 1 ? "was last seen in " + at.describe() : fmt::format("last completed #{}", done);
}

std::optional<Error> Segment::failure() const {
  // Pairs with the release at the end of report(), so the fields next to the flag are complete.
  if (header_->fault.load(std::memory_order_acquire) != kFaultWritten) {
    return std::nullopt;
  }
  // Bounded, because text written by two ranks at once may lack its NUL.
  const auto length = ::strnlen(header_->text, kFaultText);
  return Error{.code = static_cast<Errc>(header_->code),
               .rank = header_->rank,
               .epoch = plan_.epoch,
               .seq = header_->seq,
               .native = header_->native,
               .text = std::string(header_->text, length)};
}

void Segment::report(const Error& error) {
  std::uint32_t seen = 0;
  const std::uint32_t ours = kFaultWriting + static_cast<std::uint32_t>(self());
  // There is only one writer: the compare-exchange from 0 decides whose reason counts. The value
  // names the writer, so that others can distinguish a report in progress from one that will never
  // be finished.
  bool mine = header_->fault.compare_exchange_strong(seen, ours);
  // If the writer was killed before it finished, another rank takes over. A thread of the dying
  // process may still run for a few microseconds after the kernel has marked its word. In that case
  // both ranks write. The text may be garbled, but it stays within its bounds.
  if (!mine && seen >= kFaultWriting && seen - kFaultWriting < size() &&
      dead(seen - kFaultWriting)) {
    mine = header_->fault.compare_exchange_strong(seen, ours);
  }
  if (mine) {
    header_->code = static_cast<std::uint32_t>(error.code);
    header_->rank = error.rank;
    header_->native = error.native;
    header_->seq = error.seq;
    const std::size_t length = std::min(error.text.size(), kFaultText - 1);
    std::memcpy(header_->text, error.text.data(), length);
    header_->fault.store(kFaultWritten, std::memory_order_release);
  }
  wake_sleepers();
}

std::string Segment::describe() const {
  std::string out;
  for (std::size_t i = 0; i < size(); ++i) {
    out += fmt::format("rank {} (pid {}{}) {}\n",
                       plan_.ranks[i],
                       member(i).pid,
                       dead(i) ? ", dead" : "",
                       where(i));
  }
  return out;
}

}  // namespace muster::collective
