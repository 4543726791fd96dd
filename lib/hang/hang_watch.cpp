// SPDX-License-Identifier: Apache-2.0
#include "hang/hang_watch.hpp"

#include "base/clock.hpp"
#include "collective/recorder/flight_recorder.hpp"
#include "hang/judge.hpp"
#include "hang/positions.hpp"
#include "hang/proc_evidence.hpp"
#include "hang/stack_collector.hpp"
#include "hang/torch_recorders.hpp"
#include "process/linux_runner.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

namespace muster::hang {
namespace {

// Between the two looks at each thread's CPU time: many ticks of the kernel's clock.
constexpr Duration kCpuWindow = std::chrono::milliseconds(250);

// Of all stacks together: then the verdict is made from what is there.
constexpr Duration kInspectionMax = std::chrono::seconds(25);

// Of one recorder: as many as it keeps, unless a program wants more.
constexpr std::uint64_t kRecordsMax = 2048;

std::optional<std::uint64_t> step_of(const std::vector<std::optional<std::uint64_t>>& steps,
                                     const WatchedWorker& worker) {
  const auto at = static_cast<std::size_t>(worker.local_rank);
  return at < steps.size() ? steps[at] : std::nullopt;
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
        window(loop),
        collector(loop, settings.py_spy, settings.environment),
        recorders(loop) {}

  LinuxRunner& runner;
  HangWatchSettings settings;
  HangSite& site;
  HangCore core;
  asio::steady_timer timer;
  asio::steady_timer window;
  StackCollector collector;
  TorchRecorders recorders;
  std::vector<WatchedWorker> workers;
  int world_size = 0;
  bool inspecting = false;
  bool stacks_there = false;
  bool flights_there = false;
  Evidence evidence;
  Done done;  // many nodes: who wants it
  Duration inspection_max{};
  std::map<pid_t, ThreadUse> times_before;
  TimePoint times_at{};

  void arm();
  void look();
  [[nodiscard]] std::vector<Sample> samples();
  void perform(std::vector<HangEffect> effects);
  void inspect(Duration within);
  void look_twice();
  void conclude_if_all_there();
  void limit_inspection();
  void conclude();
  void add_positions();
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
  std::map<pid_t, std::uint64_t> operations;
  for (const int fd : runner.flight_recorders()) {
    for (const auto& one : collective::read_flight_progress(fd)) {
      operations[one.pid] += one.completed;
    }
  }
  const bool life = core.wants_life(steady_now());
  const auto steps = site.steps();
  std::vector<Sample> out;
  for (const WatchedWorker& worker : workers) {
    if (worker.ended) {
      continue;
    }
    Sample sample{.rank = worker.rank};
    sample.steps = step_of(steps, worker);
    sample.output = runner.output_bytes(worker.local_rank);
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
  collector.cancel();
  recorders.cancel();
  inspecting = true;
  inspection_max = within;
  stacks_there = false;
  flights_there = false;
  evidence = {};
  evidence.limit = seconds(core.limit());
  evidence.world_size = world_size;
  times_before.clear();
  const auto steps = site.steps();
  for (const WatchedWorker& worker : workers) {
    RankEvidence rank{.rank = worker.rank, .local_rank = worker.local_rank, .ended = worker.ended};
    if (!worker.ended) {
      rank.steps = step_of(steps, worker);
      rank.processes = read_processes(worker.pid);
      times_before.merge(thread_use(rank.processes));
    }
    evidence.ranks.push_back(std::move(rank));
  }
  times_at = steady_now();
  look_twice();
  recorders.ask(evidence.ranks, [this] {
    flights_there = true;
    conclude_if_all_there();
  });
  collector.collect(evidence.ranks, [this] {
    stacks_there = true;
    conclude_if_all_there();
  });
}

void HangWatch::Impl::conclude_if_all_there() {
  if (stacks_there && flights_there && steady_now() - times_at >= kCpuWindow) {
    conclude();
  }
}

void HangWatch::Impl::look_twice() {
  window.expires_after(kCpuWindow);
  window.async_wait([this](const std::error_code& error) {
    if (error) {
      return;
    }
    if (stacks_there && flights_there) {
      conclude();
    } else {
      limit_inspection();
    }
  });
}

void HangWatch::Impl::limit_inspection() {
  window.expires_after(std::max(inspection_max - kCpuWindow, Duration::zero()));
  window.async_wait([this](const std::error_code& error) {
    if (!error) {
      evidence.gaps.emplace_back("some stacks did not come in time");
      conclude();
    }
  });
}

// At the end: some may have gone on meanwhile.
void HangWatch::Impl::add_progress() {
  const TimePoint now = steady_now();
  evidence.progress = seconds(core.quiet(now));
  for (RankEvidence& rank : evidence.ranks) {
    rank.quiet = seconds(core.quiet(rank.rank, now));
    rank.lifeless = seconds(core.lifeless(rank.rank, now));
    rank.strong = core.is_strong(rank.rank);
  }
}

void HangWatch::Impl::add_positions() {
  const auto now = static_cast<std::uint64_t>(steady_now().time_since_epoch().count());
  for (const int fd : runner.flight_recorders()) {
    const auto logs =
        collective::read_flight_recorders("/proc/self/fd/" + std::to_string(fd), kRecordsMax);
    if (!logs) {
      continue;
    }
    for (auto& [pid, position] : positions_of(*logs, now)) {
      const auto worker = std::ranges::find(workers, pid, &WatchedWorker::pid);
      if (worker != workers.end()) {
        const auto at = static_cast<std::size_t>(worker - workers.begin());
        evidence.ranks.at(at).positions.push_back(std::move(position));
      }
    }
  }
}

void HangWatch::Impl::conclude() {
  if (!std::exchange(inspecting, false)) {
    return;
  }
  window.cancel();
  auto gaps = collector.gaps();
  collector.cancel();
  std::ranges::move(gaps, std::back_inserter(evidence.gaps));
  std::ranges::move(recorders.gaps(), std::back_inserter(evidence.gaps));
  recorders.cancel();
  add_progress();
  add_cpu(evidence.ranks, times_before, seconds(steady_now() - times_at));
  add_positions();
  recorders.add_positions(evidence.ranks);
  find_other_sides(evidence.ranks);
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
  inspecting = false;
  timer.cancel();
  window.cancel();
  collector.cancel();
  recorders.cancel();
}

// Nothing was seen: whoever asked need not wait.
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

void HangWatch::begin(std::vector<WatchedWorker> workers, int world_size) {
  end();
  impl_->workers = std::move(workers);
  impl_->world_size = world_size;
  std::vector<int> ranks;
  for (const WatchedWorker& worker : impl_->workers) {
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

const Evidence& HangWatch::seen() const {
  return impl_->evidence;
}

void HangWatch::told(const std::optional<Verdict>& verdict) {
  impl_->core.told(steady_now(), verdict);
}

}  // namespace muster::hang
