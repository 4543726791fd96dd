// SPDX-License-Identifier: Apache-2.0
#include "hang/hang_watch.hpp"

#include "base/clock.hpp"
#include "collective/recorder/flight_recorder.hpp"
#include "hang/answer_output.hpp"
#include "hang/gather/inspection.hpp"
#include "hang/gather/proc_evidence.hpp"
#include "hang/judge/judge.hpp"
#include "process/run/linux_runner.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>

namespace muster::hang {
namespace {

// The default capacity of a recorder. A program may request more.
constexpr std::uint64_t kRecordsMax = 2048;

std::optional<std::uint64_t> step_of(const std::vector<std::optional<std::uint64_t>>& steps,
                                     const WatchedWorker& worker) {
  const auto at = static_cast<std::size_t>(worker.local_rank);
  return at < steps.size() ? steps[at] : std::nullopt;
}

std::vector<collective::FlightLog> read_recorders(const LinuxRunner& runner) {
  std::vector<collective::FlightLog> out;
  for (const int fd : runner.flight_recorders()) {
    // A recorder may be a memfd, which can be opened only through the path of its descriptor.
    auto logs =
        collective::read_flight_recorders("/proc/self/fd/" + std::to_string(fd), kRecordsMax);
    if (logs) {
      std::ranges::move(*logs, std::back_inserter(out));
    }
  }
  return out;
}

// True if the rank waits in an operation. If it waits for a GPU, it spins, so its CPU time is not a
// sign of life.
bool waits_in_operation(const RankEvidence& rank) {
  return std::ranges::any_of(rank.positions,
                             [](const Position& at) { return !at.pending.empty(); });
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

struct HangWatch::Impl {
  Impl(asio::io_context& loop, LinuxRunner& runner_in, HangWatchSettings given, HangSite& site_in)
      : runner(runner_in),
        settings(std::move(given)),
        site(site_in),
        core(settings.core),
        timer(loop),
        inspection(loop,
                   {.py_spy = settings.py_spy,
                    .environment = settings.environment,
                    .read_recorders = [this] { return read_recorders(runner); }}) {}

  LinuxRunner& runner;
  HangWatchSettings settings;
  HangSite& site;
  HangCore core;
  asio::steady_timer timer;
  Inspection inspection;
  std::vector<WatchedWorker> workers;
  std::size_t expected = 0;
  int world_size = 0;
  Evidence evidence;
  AnswerOutput answers;
  Done done;  // multi-node: the pending request

  void arm();
  void look();
  [[nodiscard]] std::vector<Sample> samples();
  void perform(std::vector<HangEffect> effects);
  void inspect(Duration within);
  void conclude();
  void add_progress();
  void announce(const Announce& announce);
  void stop();
  void drop_question();
};

void HangWatch::Impl::arm() {
  const auto when = core.next_look();
  if (!when) {
    timer.cancel();
    return;
  }
  timer.expires_at(*when);
  timer.async_wait([this](const std::error_code& error) {
    if (!error) {
      look();
    }
  });
}

void HangWatch::Impl::look() {
  std::vector<HangEffect> effects;
  const auto seen = samples();
  core.looked(steady_now(), seen, effects);
  perform(std::move(effects));
  arm();
}

std::vector<Sample> HangWatch::Impl::samples() {
  // A process has one recorder for each communicator, so the counts are added.
  std::map<pid_t, std::uint64_t> operations;
  for (const int fd : runner.flight_recorders()) {
    for (const auto& one : collective::read_flight_progress(fd)) {
      operations[one.pid] += one.completed;
    }
  }
  const TimePoint now = steady_now();
  const bool life = core.wants_life(now);
  const auto steps = site.steps();
  std::vector<Sample> out;
  for (const WatchedWorker& worker : workers) {
    if (worker.ended) {
      continue;
    }
    Sample sample{.rank = worker.rank, .answers = answers.is_answering(worker.rank, now)};
    sample.steps = step_of(steps, worker);
    if (const auto bytes = runner.output_bytes(worker.local_rank)) {
      sample.output = answers.count(worker.rank, *bytes, now);
    }
    if (const auto found = operations.find(worker.pid); found != operations.end()) {
      sample.operations = found->second;
    }
    if (life) {
      const Used used = used_by(worker.pid);
      sample.io_bytes = used.io_bytes;
      sample.cpu_seconds = used.cpu_seconds;
    }
    out.push_back(sample);
  }
  return out;
}

void HangWatch::Impl::perform(std::vector<HangEffect> effects) {
  for (const HangEffect& effect : effects) {
    std::visit(
        [this]<class Effect>(const Effect& asked) {
          if constexpr (std::is_same_v<Effect, Inspect>) {
            // In a multi-node job the leader then calls look() on every node, including this one.
            if (!site.ask_others()) {
              inspect(kInspectionMax);
            }
          } else if constexpr (std::is_same_v<Effect, Announce>) {
            announce(asked);
          } else if constexpr (std::is_same_v<Effect, GoesOn>) {
            site.goes_on(asked.quiet);
          } else {
            static_assert(std::is_same_v<Effect, SayBlind>);
            site.sees_nothing();
          }
        },
        effect);
  }
}

// -- evidence ---------------------------------------------------------------------------------

void HangWatch::Impl::inspect(Duration within) {
  Evidence known;
  known.limit = seconds(core.limit());
  known.world_size = world_size;
  const auto steps = site.steps();
  std::vector<pid_t> pids;
  for (const WatchedWorker& worker : workers) {
    RankEvidence rank{.rank = worker.rank, .local_rank = worker.local_rank, .ended = worker.ended};
    if (!worker.ended) {
      rank.steps = step_of(steps, worker);
    }
    known.ranks.push_back(std::move(rank));
    // The pid of a worker that has exited may already belong to another process.
    pids.push_back(worker.ended ? 0 : worker.pid);
  }
  inspection.begin(std::move(known), std::move(pids), within, [this](Evidence found) {
    evidence = std::move(found);
    conclude();
  });
  for (const WatchedWorker& worker : workers) {
    // begin() has just sent the queries. Output up to now still counts as progress.
    const auto bytes = runner.output_bytes(worker.local_rank);
    if (bytes && inspection.loud().contains(worker.rank)) {
      answers.asked(worker.rank, *bytes, steady_now());
    }
  }
}

// Runs last, because some ranks may have made progress in the meantime.
void HangWatch::Impl::add_progress() {
  const TimePoint now = steady_now();
  evidence.progress = seconds(core.quiet(now));
  for (RankEvidence& rank : evidence.ranks) {
    // Call waits() first, because lifeless() depends on it.
    if (waits_in_operation(rank)) {
      core.waits(rank.rank);
    }
    rank.quiet = seconds(core.quiet(rank.rank, now));
    rank.lifeless = seconds(core.lifeless(rank.rank, now));
    rank.strong = core.is_strong(rank.rank);
  }
}

void HangWatch::Impl::conclude() {
  answers.answered(steady_now());
  add_progress();
  // The leader requested this evidence and judges it together with that of the other nodes.
  if (const Done tell = std::exchange(done, nullptr)) {
    tell(evidence);
    return;
  }
  std::vector<HangEffect> effects;
  core.judged(steady_now(), judge(evidence), effects);
  perform(std::move(effects));
}

void HangWatch::Impl::announce(const Announce& announce) {
  HangReport report{announce.verdict, {}, evidence};
  report.facts.quiet = seconds(announce.quiet);
  report.facts.limit = seconds(announce.limit);
  report.facts.automatic = !settings.core.limit;
  report.facts.action = announce.action;
  report.facts.gaps = evidence.gaps;
  site.found(std::move(report));
}

void HangWatch::Impl::stop() {
  core.end();
  timer.cancel();
  inspection.cancel();
}

// There is no evidence, so answer a pending request immediately.
void HangWatch::Impl::drop_question() {
  if (const Done tell = std::exchange(done, nullptr)) {
    tell({});
  }
}

// -- the interface ----------------------------------------------------------------------------

HangWatch::HangWatch(asio::io_context& loop,
                     LinuxRunner& runner,
                     HangWatchSettings settings,
                     HangSite& site)
    : impl_(std::make_shared<Impl>(loop, runner, std::move(settings), site)) {}

HangWatch::~HangWatch() {
  impl_->stop();
}

void HangWatch::expect(std::size_t workers, int world_size) {
  end();
  impl_->workers.clear();
  impl_->expected = workers;
  impl_->world_size = world_size;
}

void HangWatch::worker_started(const WatchedWorker& worker) {
  impl_->workers.push_back(worker);
  resume();
}

void HangWatch::resume() {
  if (!all_started()) {
    return;
  }
  end();
  impl_->answers.clear();
  std::vector<int> ranks;
  for (const WatchedWorker& worker : impl_->workers) {
    // After a Ctrl-Z pause, some workers may already have exited.
    if (!worker.ended) {
      ranks.push_back(worker.rank);
    }
  }
  impl_->core.begin(steady_now(), ranks);
  impl_->arm();
}

void HangWatch::worker_ended(int local_rank) {
  for (WatchedWorker& worker : impl_->workers) {
    if (worker.local_rank == local_rank) {
      worker.ended = true;
      impl_->core.rank_ended(worker.rank);
    }
  }
}

void HangWatch::end() {
  impl_->stop();
  impl_->drop_question();
}

void HangWatch::look(Duration within, Done done) {
  impl_->drop_question();
  impl_->done = std::move(done);
  impl_->inspect(within);
}

const std::vector<WatchedWorker>& HangWatch::workers() const {
  return impl_->workers;
}

bool HangWatch::all_started() const {
  return impl_->workers.size() == impl_->expected;
}

const Evidence& HangWatch::seen() const {
  return impl_->evidence;
}

void HangWatch::told(const std::optional<Verdict>& verdict) {
  impl_->core.told(steady_now(), verdict);
}

}  // namespace muster::hang
