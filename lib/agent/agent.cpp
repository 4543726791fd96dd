// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.hpp"

#include "agent/error_file.hpp"
#include "agent/files.hpp"
#include "agent/meeting.hpp"
#include "agent/report.hpp"
#include "agent/run_dir.hpp"
#include "agent/store_place.hpp"
#include "agent/supervisor.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "io/name_lookup.hpp"
#include "plan/process_specs.hpp"
#include "process/guard.hpp"
#include "process/linux_runner.hpp"
#include "rendezvous/server/server.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace muster {
namespace {

constexpr Duration kReportPatience = std::chrono::seconds(1);

// DNS servers that do not answer are asked for so long where MASTER_ADDR is a name.
constexpr Duration kLookupPatience = std::chrono::seconds(15);

// no-color.org: set and not empty.
bool colours_wanted(const Environ& environ) {
  return environ.get("NO_COLOR").value_or("").empty();
}

SupervisorSettings settings_of(const LaunchConfig& config) {
  SupervisorSettings settings;
  settings.max_restarts = config.max_restarts;
  settings.grace = config.shutdown_timeout;
  settings.signals_to_forward = {config.signals_to_handle.begin(), config.signals_to_handle.end()};
  settings.shared_round = many_nodes(config);
  if (settings.shared_round) {
    // Longer than that without a sign of life would worry the other nodes.
    settings.console_patience_between =
        std::min(kConsolePatienceBetween, beat_interval(config.meeting.lease));
  }
  return settings;
}

class Agent final : public SupervisorSite, public MeetingHost {
 public:
  Agent(const AgentSetup& setup, UniqueFd link, std::optional<MeetingMeans> means)
      : setup_(setup),
        link_(loop_, link.release()),
        alarm_(loop_),
        supervisor_(*this, settings_of(setup.config)),
        means_(std::move(means)) {}

  int run();

  // SupervisorSite
  TimePoint now() override { return steady_now(); }

  double wall_seconds() override { return wall_now_seconds(); }

  ProcessRunner& runner() override { return *runner_; }

  Result<std::vector<ProcessSpec>> open_round(int attempt, int restarts) override;
  void close_attempt(std::vector<WorkerFailure>& failures, Duration patience) override;
  void warn(const std::string& words) override;
  void finished(const JobResult& result) override;

  void tell_gone() override { meeting_->tell_gone(); }

  void report_failure(const WorkerFailure& failure, Duration run_time) override {
    meeting_->report_failure(failure, run_time);
  }

  void report_finished() override { meeting_->report_finished(); }

  void leave_round(const std::string& reason) override { meeting_->leave(reason); }

 private:
  // Passes the runner's news on and re-arms the alarm after each.
  class Observer final : public ProcessObserver {
   public:
    explicit Observer(Agent& agent) : agent_(agent) {}

    void on_worker_exit(const WorkerExit& exit) override {
      note_end(exit, "");
      agent_.supervisor_.on_worker_exit(exit);
      agent_.arm();
    }

    void on_worker_dying(const WorkerExit& exit) override {
      note_end(exit, "; the kernel frees its memory");
      agent_.supervisor_.on_worker_dying(exit);
      agent_.arm();
    }

    void on_groups_empty() override { agent_.handle(GroupsEmpty{}); }

    void on_nothing_left() override { agent_.handle(NothingLeft{}); }

   private:
    void note_end(const WorkerExit& exit, const char* what_else) {
      if (agent_.setup_.config.log_level <= LogLevel::info) {
        agent_.log(LogLevel::info,
                   fmt::format("local rank {} (pid {}) {}{}",
                               exit.local_rank,
                               exit.pid,
                               exit.status.describe(),
                               what_else));
      }
      if (agent_.meeting_) {
        agent_.meeting_->check_lease();
      }
    }

    Agent& agent_;
  };

  // MeetingHost
  void handle(const SupervisorEvent& event) override;
  void run_round(RoundToRun round) override;

  int attempt() const override { return supervisor_.core().starts(); }

  Result<std::vector<ProcessSpec>> prepare_round(const Assignment& assignment) override;
  void add_record(WorkerFailure& failure) override;
  void add_last_words(WorkerFailure& failure) override;
  std::string kept_logs() const override;
  void log(LogLevel level, const std::string& words) override;

  void fail(const Error& error);
  void meet();
  void arm();
  void read_link();
  void take_notices(std::size_t bytes);
  void look_up_store();
  Result<void> prepare(int attempt);
  void report(const JobResult& result);
  void write_error_file(const WorkerFailure& root);

  const AgentSetup& setup_;
  asio::io_context loop_{1};
  asio::posix::stream_descriptor link_;
  asio::steady_timer alarm_;
  std::optional<TimePoint> armed_;
  std::array<char, 64 * sizeof(SignalNotice)> notices_{};
  std::size_t noticed_ = 0;  // bytes of an unfinished notice
  Observer observer_{*this};
  Supervisor supervisor_;
  std::unique_ptr<LinuxRunner> runner_;
  std::optional<NameLookup> lookup_;
  Result<std::vector<std::string>> store_addresses_;
  std::unique_ptr<StoreServer> store_;
  std::optional<MeetingMeans> means_;
  std::unique_ptr<Meeting> meeting_;  // many nodes
  RunDir run_dir_;
  PlanSite site_;
  int exit_code_ = 0;
};

int Agent::run() {
  LinuxRunnerSettings settings;
  settings.colours = colours_wanted(setup_.environ);
  settings.interrupt_fd = link_.native_handle();
  auto runner = LinuxRunner::open(loop_, observer_, settings);
  if (!runner) {
    fail(runner.error());
    return exit_code_;
  }
  runner_ = std::move(*runner);
  read_link();
  if (means_) {
    meet();
  } else {
    look_up_store();
  }
  loop_.run();
  return exit_code_;
}

// Before the supervisor has begun.
void Agent::fail(const Error& error) {
  JobResult result;
  result.outcome = Outcome::not_started;
  result.error = error;
  finished(result);
}

void Agent::meet() {
  meeting_ = std::make_unique<Meeting>(loop_, setup_, *this);
  if (const auto started = meeting_->start(std::move(*means_)); !started) {
    fail(started.error());
    return;
  }
  handle(Started{});
}

void Agent::run_round(RoundToRun round) {
  supervisor_.run_round(std::move(round));
  arm();
}

void Agent::handle(const SupervisorEvent& event) {
  supervisor_.handle(event);
  arm();
}

void Agent::arm() {
  const auto deadline = supervisor_.next_deadline();
  if (deadline == armed_) {
    return;
  }
  armed_ = deadline;
  if (!deadline) {
    alarm_.cancel();
    return;
  }
  alarm_.expires_at(*deadline);
  alarm_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      armed_.reset();
      handle(Tick{});
    }
  });
}

void Agent::read_link() {
  link_.async_read_some(asio::buffer(notices_.data() + noticed_, notices_.size() - noticed_),
                        [this](const asio::error_code& error, std::size_t bytes) {
                          if (error == asio::error::operation_aborted) {
                            return;
                          }
                          if (error) {
                            handle(LinkLost{});
                            return;
                          }
                          take_notices(noticed_ + bytes);
                          read_link();
                        });
}

void Agent::take_notices(std::size_t bytes) {
  std::size_t at = 0;
  for (; at + sizeof(SignalNotice) <= bytes; at += sizeof(SignalNotice)) {
    SignalNotice notice;
    std::memcpy(&notice, notices_.data() + at, sizeof(notice));
    handle(SignalReceived{notice.signo, notice.sender_pid});
  }
  noticed_ = bytes - at;
  std::memmove(notices_.data(), notices_.data() + at, noticed_);
}

// Signals are obeyed meanwhile; a name that nobody knows ends the first round.
void Agent::look_up_store() {
  const std::string& address = setup_.config.master_addr;
  if (!needs_lookup(address)) {
    store_addresses_ = std::vector{numeric_address(address)};
    handle(Started{});
    return;
  }
  lookup_.emplace(loop_, address, kLookupPatience, [this](Result<std::vector<std::string>> found) {
    store_addresses_ = std::move(found);
    if (!store_addresses_) {
      store_addresses_.error().code = Errc::unreachable;
    }
    handle(Started{});
  });
}

// A store of its own for each round: workers of an earlier attempt that are not quite dead cannot
// reach the new ones, and no key is left over.
Result<std::vector<ProcessSpec>> Agent::open_round(int attempt, int restarts) {
  const LaunchConfig& config = setup_.config;
  store_.reset();
  if (!store_addresses_) {
    return std::unexpected(store_addresses_.error());
  }
  auto store = open_store(loop_, *store_addresses_, config.master_port);
  if (!store) {
    return std::unexpected(store.error());
  }
  store_ = std::move(*store);
  if (const auto ready = prepare(attempt); !ready) {
    return std::unexpected(ready.error());
  }
  Assignment assignment =
      assign_alone(config.nproc, attempt, Endpoint{config.master_addr, store_->port()});
  assignment.restart_count = restarts;
  if (config.log_level <= LogLevel::info) {
    log(LogLevel::info,
        fmt::format("attempt {}: {} workers, store on {}:{}, files in '{}'",
                    attempt + 1,
                    config.nproc,
                    config.master_addr,
                    store_->port(),
                    run_dir_.path()));
  }
  return process_specs(config, setup_.environ, assignment, site_);
}

Result<std::vector<ProcessSpec>> Agent::prepare_round(const Assignment& assignment) {
  if (const auto ready = prepare(assignment.attempt); !ready) {
    return std::unexpected(ready.error());
  }
  return process_specs(setup_.config, setup_.environ, assignment, site_);
}

Result<void> Agent::prepare(int attempt) {
  if (run_dir_.path().empty()) {
    auto made = RunDir::make(setup_.config, setup_.environ, setup_.random);
    if (!made) {
      return std::unexpected(made.error());
    }
    run_dir_ = std::move(*made);
    site_ = PlanSite{run_dir_.path(), setup_.hostname, setup_.stderr_is_terminal};
  }
  return run_dir_.make_attempt(attempt, setup_.config.nproc);
}

void Agent::close_attempt(std::vector<WorkerFailure>& failures, Duration patience) {
  runner_->finish_output(patience);
  for (WorkerFailure& failure : failures) {
    if (failure.spawn_error) {
      continue;
    }
    add_last_words(failure);
    add_record(failure);
  }
}

void Agent::add_record(WorkerFailure& failure) {
  if (failure.spawn_error) {
    return;
  }
  const std::string path = error_file_path(site_, failure.attempt, failure.local_rank);
  failure.record = parse_error_file(read_some(path, kErrorFileBytesMax + 1));
  failure.error_file = failure.record ? path : std::string();
}

void Agent::add_last_words(WorkerFailure& failure) {
  if (!failure.spawn_error) {
    failure.stderr_tail = runner_->stderr_tail(failure.local_rank);
  }
}

std::string Agent::kept_logs() const {
  return setup_.config.log_dir.empty() ? std::string() : run_dir_.path();
}

void Agent::warn(const std::string& words) {
  log(LogLevel::warning, words);
}

// Seldom used, so the logger is made when there is something to log.
void Agent::log(LogLevel level, const std::string& words) {
  if (level < setup_.config.log_level) {
    return;
  }
  if (meeting_) {
    meeting_->clear_line();
  }
  Log("muster", setup_.config.log_level).write(level, words);
}

void Agent::finished(const JobResult& result) {
  exit_code_ = exit_code_of(result);
  store_.reset();
  if (meeting_) {
    meeting_->close();
  }
  report(result);
  loop_.stop();
}

void Agent::report(const JobResult& result) {
  if (result.outcome == Outcome::failed) {
    if (const auto story = story_of(result, ReportSite{})) {
      write_error_file(story->root);
    }
  }
  ReportSite site;
  site.node = setup_.hostname;
  site.program = setup_.config.program.name;
  site.logs = run_dir_.clean_up() ? run_dir_.path() : std::string();
  site.colour = setup_.stderr_is_terminal && colours_wanted(setup_.environ);
  const std::string words = render_report(result, site);
  if (words.empty()) {
    return;
  }
  if (!site.logs.empty()) {
    if (const auto written = write_file(site.logs + "/report.json", report_json(result, site));
        !written) {
      warn(written.error().message);
    }
  }
  write_last_words(2, words, kReportPatience);
}

// What we were asked to tell our own caller, as torchrun does it.
void Agent::write_error_file(const WorkerFailure& root) {
  const std::string path = setup_.environ.get("TORCHELASTIC_ERROR_FILE").value_or("");
  if (path.empty()) {
    return;
  }
  const std::string text = root.error_file.empty()
                               ? make_error_file(root, traceback_of(root))
                               : with_error_code(read_some(root.error_file, kErrorFileBytesMax + 1),
                                                 root.status.torchrun_code());
  if (const auto written = write_file(path, text); !written) {
    warn(written.error().message);
  }
}

}  // namespace

int run_agent(const AgentSetup& setup, UniqueFd link, std::optional<MeetingMeans> means) {
  return Agent(setup, std::move(link), std::move(means)).run();
}

}  // namespace muster
