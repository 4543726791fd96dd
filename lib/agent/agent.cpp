// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.hpp"

#include "agent/checks/check_control.hpp"
#include "agent/doors.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/job_end.hpp"
#include "agent/rounds/delayed_rounds.hpp"
#include "agent/rounds/judged_rounds.hpp"
#include "agent/rounds/local_rounds.hpp"
#include "agent/rounds/local_store.hpp"
#include "agent/rounds/shared_rounds.hpp"
#include "agent/rounds/shared_start.hpp"
#include "agent/rounds/warm_rounds.hpp"
#include "agent/signal_link.hpp"
#include "agent/signal_reach.hpp"
#include "agent/sinks/command_runner.hpp"
#include "agent/sinks/event_commands.hpp"
#include "agent/sinks/event_log.hpp"
#include "agent/sinks/final_report.hpp"
#include "agent/sinks/messages.hpp"
#include "agent/sinks/node_history_file.hpp"
#include "agent/sinks/roll_call_lines.hpp"
#include "agent/supervisor/supervisor.hpp"
#include "agent/watch/child_death_watch.hpp"
#include "agent/watch/debug_watch.hpp"
#include "agent/watch/hang_control.hpp"
#include "agent/watch/mpi_watch.hpp"
#include "agent/watch/port_watch.hpp"
#include "agent/watch/preemption_control.hpp"
#include "agent/watch/stats_watch.hpp"
#include "agent/watch/step_watch.hpp"
#include "agent/watch/straggler_watch.hpp"
#include "agent/watch/timer_watch.hpp"
#include "agent/web/job_server.hpp"
#include "agent/workers/program_file.hpp"
#include "agent/workers/run_folder.hpp"
#include "agent/workers/worker_channel.hpp"
#include "base/clock.hpp"
#include "base/logger.hpp"
#include "machine/kernel_log.hpp"
#include "plan/worker_argv.hpp"
#include "plan/worker_env.hpp"
#include "process/run/linux_runner.hpp"
#include "process/warm/zygote.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace muster {
namespace {

SupervisorSettings settings_of(const LaunchConfig& config) {
  SupervisorSettings settings;
  settings.max_restarts = config.max_restarts;
  settings.restart_by_rank = config.restart_by_rank;
  settings.grace = config.shutdown_timeout;
  settings.signals_to_forward = {config.signals_to_handle.begin(), config.signals_to_handle.end()};
  settings.signals_reach_all = config.signal_delivery != SignalDelivery::leader;
  if (config.job_ends) {
    const double left = static_cast<double>(*config.job_ends) - wall_now_seconds();
    settings.job_ends =
        steady_now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(left));
  }
  if (many_nodes(config)) {
    // While this node waits for its console, it sends no heartbeats, so the wait must not be longer
    // than one heartbeat interval.
    settings.console_timeout_between =
        std::min(kConsoleTimeoutBetween, beat_interval(config.rendezvous.lease));
  }
  return settings;
}

RollCallStyle style_of(const AgentSetup& setup) {
  return {.live = setup.stderr_is_terminal,
          .columns = setup.stderr_columns,
          .silent = setup.config.log_level > LogLevel::warning,
          .give_up = setup.config.rendezvous.join_timeout};
}

class Agent final : public WorkerSite, public WarmSite, public DelaySite {
 public:
  Agent(const AgentSetup& setup, GuardLink link, std::optional<SharedWithGuard> shared)
      : setup_(setup),
        link_(loop_, std::move(link)),
        alarm_(loop_),
        delay_(loop_),
        commands_(loop_,
                  setup.config.on_event,
                  setup.environ.to_block(),
                  [this](pid_t pid) { runner_->spare(pid); }),
        event_commands_(
            [this](const auto& input, auto ended) { return commands_.run(input, ended); },
            [this](const std::string& text) { warn(text); }),
        roll_call_(loop_, style_of(setup), [](const std::string& text) { logger().write(text); }),
        event_log_(open_event_file,
                   steady_now,
                   [this](const std::string& text) { events_.say(LogLevel::warning, text); }),
        shared_with_guard_(std::move(shared)),
        rounds_(make_rounds()),
        warm_rounds_(*rounds_, *this),
        delayed_rounds_(inner_rounds(),
                        *this,
                        {setup.config.restart_delay, setup.config.restart_delay_longest}),
        judged_rounds_(delayed_rounds_,
                       {setup.config.nproc,
                        setup.config.stop_on_verdict,
                        setup.config.no_restart_on,
                        setup.config.max_restarts > 0}),
        supervisor_(*this, judged_rounds_, settings_of(setup.config)) {
    add_sinks();
    doors_.guard([this](const std::string& text) { warn(text); });
    if (shared_rounds_ != nullptr) {
      doors_.guard_shared(*shared_rounds_, setup_.config.store_via);
    }
    local_store_.set_admission(&doors_.store);
  }

  AgentEnd run();

  // WorkerSite
  TimePoint now() override { return steady_now(); }

  double wall_seconds() override { return wall_now_seconds(); }

  ProcessRunner& runner() override { return *runner_; }

  void set_alarm(std::optional<TimePoint> when) override;

  void tell(event::What what) override;

  void close_attempt(Duration timeout) override;
  void add_evidence(WorkerFailure& failure) override;

  std::optional<std::uint64_t> last_step() override { return channel_.latest_step(); }

  std::string mend_obstacle() override { return program_file_.change(); }

  void keep_spares() override {
    runner_->keep_spares(
        {setup_.config.spare_workers,
         [this](int number) { return folder_.prepare_spare(number); },
         [this](LogLevel level, const std::string& text) { events_.say(level, text); }});
  }

  void tell_late(const std::vector<int>& local_ranks) override {
    preemption_.tell_late(local_ranks);
  }

  void finished(const JobResult& result) override {
    JobResult complete = judged_rounds_.complete(result);
    if (shared_rounds_ != nullptr) {
      complete.suspects = shared_rounds_->suspects();
    }
    job_end_.begin(complete);
  }

  // WarmSite
  void prepare_zygote(ZygoteObserver& observer) override;
  void fail(const Error& error) override;

  void warn(const std::string& text) override { events_.say(LogLevel::warning, text); }

  void inform(const std::string& text) override { events_.say(LogLevel::info, text); }

  // DelaySite
  void begin_wait(Duration delay, bool grows) override;

  void cancel_wait() override { delay_.cancel(); }

 private:
  [[nodiscard]] RoundSource& inner_rounds();
  [[nodiscard]] std::unique_ptr<RoundSource> make_rounds();
  void add_sinks();
  void watch_progress();
  void watch_descendants();

  [[nodiscard]] std::uint64_t output_bytes() const { return runner_ ? runner_->output_bytes() : 0; }

  // For lines that are not events.
  void show(const std::string& line) {
    roll_call_.clear_line();
    logger().write(line);
  }

  [[nodiscard]] NodeStats stats() { return stats_watch_ ? stats_watch_->read() : NodeStats{}; }

  [[nodiscard]] Result<void> open_runner();
  void open_channel();
  void begin();
  void begin_rounds();

  // The job may end while a lookup before its start still runs.
  [[nodiscard]] bool is_over() const {
    return job_end_.is_reported() || supervisor_.core().state() == SupervisorState::done;
  }

  void take_signal(const SignalNotice& notice);

  const AgentSetup& setup_;
  asio::io_context loop_{1};
  SignalLink link_;
  asio::steady_timer alarm_;
  asio::steady_timer delay_;  // before a restart
  std::optional<TimePoint> armed_;
  std::unique_ptr<LinuxRunner> runner_;
  EventStream events_{setup_.hostname, wall_now_seconds};
  Messages messages_{setup_};
  CommandRunner commands_;
  EventCommands event_commands_;
  RollCallLines roll_call_;
  EventLog event_log_;
  NodeHistoryFile node_history_{setup_, events_};
  FinalReport final_report_{setup_, events_, messages_, [this](const JobEvent& last) {
                              return job_server_.report_fields(last);
                            }};
  JobServer job_server_{loop_,
                        setup_,
                        events_,
                        {[this] { return output_bytes(); },
                         [this] { return stats(); },
                         [this](const std::string& line) { show(line); },
                         {[this](const auto& node) { return forget(shared_rounds_, node); },
                          [this](int rank) { return debug_watch_.begin(rank); },
                          [this] { return check_.request(); },
                          [this](const auto& wanted) { return kineto_.request(wanted); }}}};
  AgentRunFolder folder_{setup_};
  KinetoDaemon kineto_{loop_};
  DebugWatch debug_watch_{setup_, folder_, [this](const std::string& line) { show(line); }};
  ProgramFile program_file_{setup_.config.program};
  Doors doors_;
  WorkerChannel channel_{loop_,
                         events_,
                         setup_.config.shutdown_timeout,
                         setup_.config.restart_by_rank ? setup_.config.vault_memory : 0};
  PortWatch port_watch_{loop_, events_, [this] { return doors_.store.asked(); }};
  MpiWatch mpi_watch_{loop_, events_, setup_.config};
  LocalStore local_store_{loop_, setup_, folder_, events_};
  std::optional<SharedWithGuard> shared_with_guard_;
  std::optional<SharedStart> shared_start_;  // its MUNGE is used by *rounds_
  SharedRounds* shared_rounds_ = nullptr;    // points to *rounds_ in a multi-node job, else null
  RoundGate gate_{supervisor_};
  std::unique_ptr<RoundSource> rounds_;
  WarmRounds warm_rounds_;
  DelayedRounds delayed_rounds_;
  JudgedRounds judged_rounds_;
  KernelLog kernel_log_;
  Supervisor supervisor_;
  PreemptionControl preemption_{loop_, setup_, {events_, supervisor_, channel_, shared_rounds_}};
  CheckControl check_{
      loop_, setup_, {events_, gate_, supervisor_, *rounds_, shared_rounds_, [this](pid_t pid) {
                        runner_->spare(pid);
                      }}};
  JobEnd job_end_{loop_,
                  setup_,
                  {runner_,
                   events_,
                   event_commands_,
                   roll_call_,
                   final_report_,
                   job_server_,
                   folder_,
                   channel_,
                   preemption_},
                  [this] { loop_.stop(); }};
  StepWatch step_watch_{loop_, events_, channel_};
  std::optional<HangControl> hang_control_;
  std::optional<StragglerWatch> straggler_watch_;
  std::optional<StatsWatch> stats_watch_;
  std::optional<ChildDeathWatch> child_death_watch_;
  std::optional<TimerWatch> timer_watch_;
};

// Runs before the supervisor is constructed. A round source does not use the supervisor before the
// supervisor's first call to the source.
std::unique_ptr<RoundSource> Agent::make_rounds() {
  if (!shared_with_guard_) {
    const LaunchConfig& config = setup_.config;
    return std::make_unique<LocalRounds>(
        gate_, local_store_, RestartLimits{config.max_restarts, config.quick_failures});
  }
  auto rounds = std::make_unique<SharedRounds>(
      loop_,
      setup_,
      SharedRoundsParts{gate_, folder_, events_, roll_call_, doors_.store, doors_.job_sockets});
  shared_rounds_ = rounds.get();
  return rounds;
}

RoundSource& Agent::inner_rounds() {
  return setup_.config.warm ? static_cast<RoundSource&>(warm_rounds_) : *rounds_;
}

void Agent::prepare_zygote(ZygoteObserver& observer) {
  ProcessSpec spec;
  spec.argv = zygote_argv(setup_.config, zygote_source());
  Environ environ = node_env(setup_.config, setup_.environ);
  environ.erase("RANK");               // the zygote is not a worker; each worker gets its own RANK
  environ.erase("KINETO_USE_DAEMON");  // starts a thread, which a forked worker would not have
  spec.environment = environ.to_block();
  runner_->prepare_zygote(spec, observer);
}

void Agent::add_sinks() {
  messages_.before_lines([this] { roll_call_.clear_line(); });
  events_.add(event_log_);
  events_.add(node_history_);
  events_.add(channel_);
  events_.add(program_file_);
  events_.add(messages_);
  events_.add(roll_call_);
  events_.add(port_watch_);
  events_.add(mpi_watch_);
  events_.add(debug_watch_);
  events_.add(final_report_);
  events_.add(job_server_.sink());
  if (!setup_.config.on_event.empty()) {
    events_.add(event_commands_);  // the last sink, because its commands may read the others' files
  }
  const LaunchConfig& config = setup_.config;
  events_.tell(event::JobStarted{config.program.name,
                                 config.nproc,
                                 config.max_restarts,
                                 setup_.version,
                                 config.rdzv_id,
                                 ::getppid(),
                                 config.platform.run_id ? config.platform.run_id->value : ""});
}

AgentEnd Agent::run() {
  if (const auto opened = open_runner(); !opened) {
    fail(opened.error());
    return {job_end_.exit_code()};
  }
  event_commands_.begin();
  folder_.use(*runner_);
  if (setup_.config.serves_kineto) {
    folder_.use(kineto_);
    events_.add(kineto_);
  }
  folder_.set_notice([this](LogLevel level, const std::string& text) { events_.say(level, text); });
  watch_progress();
  watch_descendants();
  open_channel();
  if (const auto started = job_server_.start(); !started) {
    fail(started.error());
  }
  link_.start([this](const SignalNotice& notice) { take_signal(notice); },
              [this] { job_end_.is_reported() ? loop_.stop() : supervisor_.handle(LinkLost{}); });
  if (!job_end_.is_reported()) {
    begin();
  }
  loop_.run();
  return {job_end_.exit_code(), job_end_.rejoins()};
}

void Agent::watch_progress() {
  if (setup_.config.watch_hangs) {
    hang_control_.emplace(
        loop_,
        setup_,
        HangControlParts{*runner_, events_, supervisor_, channel_, debug_watch_, shared_rounds_});
    events_.add(*hang_control_);
  }
  straggler_watch_.emplace(loop_, StragglerWatchParts{*runner_, events_, channel_, shared_rounds_});
  events_.add(*straggler_watch_);
  stats_watch_.emplace(loop_,
                       StatsWatchParts{*runner_, channel_, setup_.environ.to_block(), [this] {
                                         return straggler_watch_->waits();
                                       }});
  events_.add(*stats_watch_);
  if (shared_rounds_ != nullptr) {
    if (hang_control_) {
      shared_rounds_->use(Topic::hang, *hang_control_);
    }
    shared_rounds_->use(*straggler_watch_);
    shared_rounds_->use(Topic::preemption, preemption_);
    shared_rounds_->use(Topic::departure, preemption_);
    shared_rounds_->use(Topic::check, check_);
  }
  events_.add(preemption_);
  events_.add(step_watch_);
  preemption_.start();
  events_.add(check_);
  check_.start();
}

void Agent::watch_descendants() {
  if (setup_.config.on_child_death == OnChildDeath::fail) {
    child_death_watch_.emplace(loop_, *runner_, events_, supervisor_);
    events_.add(*child_death_watch_);
  }
  if (setup_.config.file_timers) {
    timer_watch_.emplace(loop_, *runner_, events_, folder_);
    events_.add(*timer_watch_);
  }
}

Result<void> Agent::open_runner() {
  LinuxRunnerSettings settings;
  settings.colours = colours_wanted(setup_.environ);
  settings.interrupt_fd = link_.fd();
  settings.traceable = setup_.config.watch_hangs;
  settings.tell_unread_input = !setup_.config.stdin_rank && !setup_.config.stdin_rank_chosen &&
                               setup_.config.log_level <= LogLevel::warning;
  if (setup_.config.stdin_rank && !shared_with_guard_) {
    settings.signal_job = [this](int signo) { supervisor_.handle(SignalReceived{signo}); };
  }
  settings.before_reaping = [this] {
    if (child_death_watch_) {
      child_death_watch_->look_before_reaping();
    }
  };
  auto runner = LinuxRunner::open(loop_, supervisor_, settings);
  MUSTER_RETURN_IF_ERROR(runner);
  runner_ = std::move(*runner);
  return {};
}

void Agent::open_channel() {
  if (const auto opened = channel_.open(setup_.random); !opened) {
    events_.say(LogLevel::warning,
                opened.error().message + "; workers cannot report progress or events");
  }
  folder_.tell_workers(channel_.name());
  channel_.when_resumed([this](int local_rank, std::uint64_t epoch) {
    supervisor_.handle(WorkerReady{local_rank, epoch});
  });
  channel_.when_heard([this](int local_rank, Duration longest_pause, bool arrived) {
    supervisor_.handle(WorkerHeard{local_rank, longest_pause, arrived});
  });
  channel_.when_left([this](int local_rank) { supervisor_.handle(WorkerLeft{local_rank}); });
  channel_.when_outlives([this](pid_t pid) {
    runner_->spare(pid);
    link_.spare_at_end(pid);
  });
}

// Reports an error that occurs before the supervisor has started.
void Agent::fail(const Error& error) {
  JobResult result;
  result.outcome = Outcome::not_started;
  result.error = error;
  rounds_->close();
  finished(result);
}

void Agent::begin() {
  if (setup_.config.warm) {
    warm_rounds_.when_ready([this] { begin_rounds(); });
  } else {
    begin_rounds();
  }
}

void Agent::begin_rounds() {
  if (!shared_with_guard_) {
    local_store_.look_up([this] {
      if (!is_over()) {
        supervisor_.handle(Started{});
      }
    });
    return;
  }
  shared_start_.emplace(
      loop_,
      setup_,
      SharedStartParts{
          events_, *shared_rounds_, doors_.agents, *shared_with_guard_, node_history_, [this] {
            return is_over();
          }});
  shared_start_->start([this](const Result<void>& joined) {
    if (joined) {
      supervisor_.handle(Started{});
    } else {
      fail(joined.error());
    }
  });
}

void Agent::set_alarm(std::optional<TimePoint> when) {
  if (when == armed_) {
    return;
  }
  armed_ = when;
  if (!when) {
    alarm_.cancel();
    return;
  }
  alarm_.expires_at(*when);
  alarm_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      armed_.reset();
      supervisor_.handle(Tick{});
    }
  });
}

void Agent::begin_wait(Duration delay, bool grows) {
  // In a multi-node job, the leader has not decided yet whether there is a restart.
  warn(fmt::format("waiting {} before {} restart ({}--restart-delay)",
                   describe(delay),
                   shared_rounds_ == nullptr ? "the" : "any",
                   grows ? "no progress since the last one; " : ""));
  events_.tell(event::RestartDelayed{std::chrono::duration<double>(delay).count()});
  delay_.expires_after(delay);
  delay_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      delayed_rounds_.end_wait();
    }
  });
}

void Agent::take_signal(const SignalNotice& notice) {
  if (runner_->take_terminal_signal(notice.signo)) {
    return;
  }
  if (job_end_.is_reported()) {
    job_end_.take_signal(notice.signo);
    return;
  }
  const bool reached =
      reached_workers(setup_.config.signal_delivery, notice, process_name(notice.sender_pid));
  events_.tell(event::SignalTaken{notice.signo, notice.sender_pid});
  if (preemption_.take_signal(notice.signo, notice.sender_pid)) {
    return;
  }
  supervisor_.handle(SignalReceived{notice.signo, notice.sender_pid, reached});
}

void Agent::tell(event::What what) {
  const std::string doubt = judged_rounds_.complete(what);
  events_.tell(std::move(what));
  if (!doubt.empty()) {
    warn(doubt);
  }
}

void Agent::close_attempt(Duration timeout) {
  runner_->finish_output(timeout);
  channel_.end_round();
}

void Agent::add_evidence(WorkerFailure& failure) {
  folder_.add_evidence(failure);
  if (hang_control_) {
    hang_control_->add_evidence(failure);
  }
  if (timer_watch_) {
    timer_watch_->add_evidence(failure);
  }
  failure.step = channel_.latest_step();
  judged_rounds_.note(failure, kernel_log_.read_new());
}

}  // namespace

AgentEnd run_agent(const AgentSetup& setup, GuardLink link, std::optional<SharedWithGuard> shared) {
  return Agent(setup, std::move(link), std::move(shared)).run();
}

}  // namespace muster
