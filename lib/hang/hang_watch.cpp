// SPDX-License-Identifier: Apache-2.0
#include "hang/hang_watch.hpp"

#include "base/clock.hpp"
#include "collective/recorder/flight_recorder.hpp"
#include "hang/gather/proc_evidence.hpp"
#include "hang/judge/judge.hpp"
#include "process/run/linux_runner.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <iterator>
#include <map>
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

HangWatch::HangWatch(asio::io_context& loop,
                     LinuxRunner& runner,
                     HangWatchSettings settings,
                     HangSite& site)
    : runner_(runner),
      settings_(std::move(settings)),
      site_(site),
      core_(settings_.core),
      timer_(loop),
      inspection_(loop,
                  {.py_spy = settings_.py_spy,
                   .environment = settings_.environment,
                   .read_recorders = [this] { return read_recorders(runner_); }}) {}

HangWatch::~HangWatch() {
  stop();
}

void HangWatch::arm() {
  const auto when = core_.next_look();
  if (!when) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*when);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) {
      check();
    }
  });
}

void HangWatch::check() {
  std::vector<HangEffect> effects;
  const auto seen = samples();
  core_.looked(steady_now(), seen, effects);
  for (const HangEffect& effect : effects) {
    if (std::holds_alternative<SayBlind>(effect)) {
      site_.sees_nothing();
    } else if (const auto* goes_on = std::get_if<GoesOn>(&effect)) {
      site_.goes_on(goes_on->quiet);
    } else if (settings_.ask_others) {
      settings_.ask_others();
    } else {
      inspect(kInspectionMax);
    }
  }
  arm();
}

std::vector<Sample> HangWatch::samples() {
  // A process has one recorder for each communicator, so the counts are added.
  std::map<pid_t, std::uint64_t> operations;
  for (const int fd : runner_.flight_recorders()) {
    for (const auto& one : collective::read_flight_progress(fd)) {
      operations[one.pid] += one.completed;
    }
  }
  const TimePoint now = steady_now();
  const bool life = core_.wants_life(now);
  const auto steps = site_.steps();
  const auto debugged = site_.debugged();
  std::vector<Sample> out;
  for (const WatchedWorker& worker : workers_) {
    if (worker.ended) {
      continue;
    }
    Sample sample{.rank = worker.rank, .answers = answers_.is_answering(worker.rank, now)};
    sample.steps = step_of(steps, worker);
    sample.debugged = debugged.contains(worker.rank);
    if (const auto bytes = runner_.output_bytes(worker.local_rank)) {
      sample.output = answers_.count(worker.rank, *bytes, now);
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

// -- evidence ---------------------------------------------------------------------------------

void HangWatch::inspect(Duration within) {
  Evidence known;
  known.limit = seconds(core_.limit());
  known.world_size = world_size_;
  const auto steps = site_.steps();
  std::vector<pid_t> pids;
  for (const WatchedWorker& worker : workers_) {
    RankEvidence rank{.rank = worker.rank, .local_rank = worker.local_rank, .ended = worker.ended};
    if (!worker.ended) {
      rank.steps = step_of(steps, worker);
    }
    known.ranks.push_back(std::move(rank));
    // The pid of a worker that has exited may already belong to another process.
    pids.push_back(worker.ended ? 0 : worker.pid);
  }
  inspection_.begin(std::move(known), std::move(pids), within, [this](Evidence found) {
    evidence_ = std::move(found);
    conclude();
  });
  for (const WatchedWorker& worker : workers_) {
    // begin() has just sent the queries. Output up to now still counts as progress.
    const auto bytes = runner_.output_bytes(worker.local_rank);
    if (bytes && inspection_.loud().contains(worker.rank)) {
      answers_.asked(worker.rank, *bytes, steady_now());
    }
  }
}

// Runs last, because some ranks may have made progress in the meantime.
void HangWatch::add_progress() {
  const TimePoint now = steady_now();
  evidence_.progress = seconds(core_.quiet(now));
  const auto debugged = site_.debugged();
  for (RankEvidence& rank : evidence_.ranks) {
    // Another node requested this evidence. A rank that a debugger has stopped does not hang.
    if (debugged.contains(rank.rank)) {
      rank.processes.clear();
      continue;
    }
    // Call waits() first, because lifeless() depends on it.
    if (waits_in_operation(rank)) {
      core_.waits(rank.rank);
    }
    rank.quiet = seconds(core_.quiet(rank.rank, now));
    rank.lifeless = seconds(core_.lifeless(rank.rank, now));
    rank.strong = core_.is_strong(rank.rank);
  }
}

void HangWatch::conclude() {
  answers_.answered(steady_now());
  add_progress();
  // The leader requested this evidence and judges it together with that of the other nodes.
  if (const Done tell = std::exchange(done_, nullptr)) {
    tell(evidence_);
    return;
  }
  HangReport report{judge(evidence_), {}, evidence_};
  const auto announce = core_.judged(steady_now(), report.verdict);
  if (!announce) {
    return;
  }
  report.facts.quiet = seconds(announce->quiet);
  report.facts.limit = seconds(announce->limit);
  report.facts.automatic = !settings_.core.limit;
  report.facts.action = announce->action;
  report.facts.gaps = evidence_.gaps;
  if (announce->action != OnHang::report) {
    report.kills = report.verdict.ranks.empty() ? -1 : report.verdict.ranks.front();
  }
  site_.found(std::move(report));
}

void HangWatch::stop() {
  core_.end();
  timer_.cancel();
  inspection_.cancel();
}

// There is no evidence, so answer a pending request immediately.
void HangWatch::drop_question() {
  if (const Done tell = std::exchange(done_, nullptr)) {
    tell({});
  }
}

// -- the interface ----------------------------------------------------------------------------

void HangWatch::expect(std::size_t workers, int world_size) {
  end();
  workers_.clear();
  expected_ = workers;
  world_size_ = world_size;
}

void HangWatch::worker_started(const WatchedWorker& worker) {
  const auto known = std::ranges::find(workers_, worker.local_rank, &WatchedWorker::local_rank);
  if (known != workers_.end()) {
    *known = worker;  // a replacement; resume() follows when all ranks work again
    return;
  }
  workers_.push_back(worker);
  resume();
}

void HangWatch::resume() {
  if (!all_started()) {
    return;
  }
  end();
  answers_.clear();
  std::vector<int> ranks;
  for (const WatchedWorker& worker : workers_) {
    // After a Ctrl-Z pause, some workers may already have exited.
    if (!worker.ended) {
      ranks.push_back(worker.rank);
    }
  }
  core_.begin(steady_now(), ranks);
  arm();
}

void HangWatch::worker_ended(int local_rank) {
  for (WatchedWorker& worker : workers_) {
    if (worker.local_rank == local_rank) {
      worker.ended = true;
      core_.rank_ended(worker.rank);
    }
  }
}

void HangWatch::end() {
  stop();
  drop_question();
}

void HangWatch::look(Duration within, Done done) {
  drop_question();
  done_ = std::move(done);
  inspect(within);
}

void HangWatch::told(const std::optional<Verdict>& verdict) {
  core_.told(steady_now(), verdict);
}

}  // namespace muster::hang
