// SPDX-License-Identifier: Apache-2.0
#include "process/run/linux_runner.hpp"

#include "base/check.hpp"
#include "process/deaths/flight_recorder_keeper.hpp"
#include "process/loop/child_signals.hpp"
#include "process/loop/interval_timer.hpp"
#include "process/loop/poller.hpp"
#include "process/output/output_pump.hpp"
#include "process/output/unread_input.hpp"
#include "process/run/end_watch.hpp"
#include "process/run/terminal_watch.hpp"
#include "process/run/worker_streams.hpp"
#include "process/run/worker_table.hpp"
#include "process/start/inherited_state.hpp"
#include "process/start/spawn.hpp"
#include "process/tree/descendants.hpp"
#include "process/tree/sweeper.hpp"
#include "process/warm/spare_keeper.hpp"
#include "process/warm/zygote_keeper.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <ranges>
#include <utility>

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster {
namespace {

// Which descendants are killed until none of them remains.
enum class KillScope { none, killed_groups, everything };

constexpr Duration kLeaderlessCheck = std::chrono::milliseconds(20);

bool group_is_empty(pid_t group) {
  return ::kill(-group, 0) != 0 && errno == ESRCH;
}

}  // namespace

struct LinuxRunner::Impl final : Watcher, std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& loop,
       ProcessObserver& process_observer,
       Poller queue,
       UniqueFd deaths,
       const LinuxRunnerSettings& wishes)
      : io(loop),
        observer(process_observer),
        poller(std::move(queue)),
        child_signals(std::move(deaths)),
        settings(wishes),
        console(poller),
        pump(poller, console, wishes.colours),
        ends(loop, poller, workers, [this] { tell(); }),
        flights(poller, [this](pid_t pid) { return workers.find(pid) != nullptr; }),
        terminal(loop, {::getppid(), [this] { return live_input_owner(); }, wishes.signal_job}),
        waiter(loop),
        zygote(loop, poller, sweeper),
        spares(loop,
               poller,
               sweeper,
               {[this](const ProcessSpec& spec, int input) { return start_process(spec, input); },
                [this](int local_rank) { return end_streams(local_rank); }}),
        group_timer(poller, *this, kLeaderlessCheck) {}

  ~Impl() override {
    if (waiter.is_open()) {
      waiter.release();  // the poller owns the descriptor
    }
  }

  asio::io_context& io;
  ProcessObserver& observer;
  Poller poller;
  UniqueFd child_signals;
  LinuxRunnerSettings settings;
  Console console;
  OutputPump pump;
  WorkerTable workers;
  EndWatch ends;
  FlightRecorderKeeper flights;
  Sweeper sweeper;
  KillScope scope = KillScope::none;
  pid_t input_owner = 0;  // the worker that has or had our standard input
  TerminalWatch terminal;
  bool turn_posted = false;
  asio::posix::stream_descriptor waiter;
  std::optional<UnreadInput> unread_input;
  ZygoteKeeper zygote;
  SpareKeeper spares;
  IntervalTimer group_timer;  // runs while there are groups whose worker was reaped

  Result<void> start();
  pid_t live_input_owner() const;
  void wait();
  void post_turn();
  void run_turn();
  void on_ready() override;
  void reap();
  void note_end(const siginfo_t& info);
  void forget_empty_groups();
  void tell();
  bool nothing_left() const;
  Result<pid_t> spawn(const ProcessSpec& spec);
  Result<pid_t> fork_or_spawn(const ProcessSpec& spec, const ChildStreams& streams);
  Result<pid_t> start_process(const ProcessSpec& spec, std::optional<int> input);
  std::string end_streams(int local_rank);
  void signal_groups(int signo, GroupsOf which);
  bool is_ours(pid_t group) const;
  void end(KillScope how);
  void kill(KillScope what);
  void keep_killing();
};

Result<void> LinuxRunner::Impl::start() {
  if (auto watched = poller.watch_input(child_signals.get(), *this); !watched) {
    return watched;
  }
  std::error_code error;
  waiter.assign(poller.fd(), error);
  if (error) {
    return failure(Errc::system, "cannot watch workers: " + error.message());
  }
  if (settings.tell_unread_input) {
    unread_input.emplace(0, poller, warn_of_unread_input);
  }
  terminal.check();
  wait();
  return {};
}

pid_t LinuxRunner::Impl::live_input_owner() const {
  return workers.find(input_owner) == nullptr ? 0 : input_owner;
}

void LinuxRunner::Impl::wait() {
  waiter.async_wait(asio::posix::stream_descriptor::wait_read,
                    [weak = weak_from_this()](const std::error_code& error) {
                      if (const auto self = weak.lock(); self && !error) {
                        self->poller.dispatch(0);
                        self->run_turn();
                        self->wait();
                      }
                    });
}

void LinuxRunner::Impl::post_turn() {
  if (!std::exchange(turn_posted, true)) {
    asio::post(io, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->turn_posted = false;
        self->run_turn();
      }
    });
  }
}

void LinuxRunner::Impl::run_turn() {
  if (pump.turn()) {
    post_turn();
  }
  ends.look_for_dying();
  tell();
}

// One SIGCHLD may represent several deaths.
void LinuxRunner::Impl::on_ready() {
  signalfd_siginfo info{};
  while (::read(child_signals.get(), &info, sizeof(info)) > 0) {
  }
  if (group_timer.take_tick()) {
    forget_empty_groups();
  }
  reap();
}

void LinuxRunner::Impl::reap() {
  ends.look_for_dying();
  settings.before_reaping();
  bool any = false;
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) {
      break;
    }
    any = true;
    note_end(info);
  }
  if (any) {
    forget_empty_groups();
    keep_killing();
  }
}

void LinuxRunner::Impl::note_end(const siginfo_t& info) {
  MUSTER_CHECK(info.si_pid > 1);
  sweeper.reaped(info.si_pid);
  zygote.note_reaped(info.si_pid);
  const auto status = ExitStatus::from_wait(info.si_code, info.si_status);
  if (const auto worker = workers.take(info.si_pid)) {
    workers.leaderless().emplace(info.si_pid, *worker);
    ends.note_reaped(info.si_pid, *worker, status);
  } else if (spares.note_reaped(info.si_pid, status)) {
    workers.leaderless().emplace(info.si_pid, LiveWorker{.killed_by_us = true});
  }  // otherwise it was an adopted orphan
}

// The kernel does not reuse a pgid while its group has members, so a pgid is ours until the group
// is empty. We check after each reaping. The last member may also leave by creating its own
// session, or be reaped by a parent outside the group. The kernel reports neither event, so only
// this rare state is polled with a timer. Without a timer, the agent's deadline ends the wait.
void LinuxRunner::Impl::forget_empty_groups() {
  std::erase_if(workers.leaderless(),
                [](const auto& group) { return group_is_empty(group.first); });
  group_timer.run(!workers.leaderless().empty());
}

void LinuxRunner::Impl::tell() {
  const auto self = shared_from_this();  // the observer may release the runner
  if (!ends.tell(observer)) {
    return;
  }
  if (workers.take_groups_empty()) {
    observer.on_groups_empty();
  }
  if (scope != KillScope::none && nothing_left()) {
    scope = KillScope::none;
    observer.on_nothing_left();
  }
}

Result<pid_t> LinuxRunner::Impl::spawn(const ProcessSpec& spec) {
  MUSTER_CHECK(spec.local_rank >= 0);
  if (workers.live().empty()) {
    flights.forget_all();
  }
  // A replacement's failure, too, may have its cause in another worker.
  if (workers.live().empty() || spec.replacement > 0) {
    ends.begin_attempt();
  }
  if (spec.replacement > 0) {
    pump.close_streams(spec.local_rank);
  }
  auto pid = start_process(spec, std::nullopt);
  if (pid && spec.standard_input == InputKind::inherit) {
    input_owner = *pid;
  }
  if (pid) {
    workers.add(*pid, spec.local_rank);
    post_turn();
  }
  return pid;
}

Result<pid_t> LinuxRunner::Impl::start_process(const ProcessSpec& spec, std::optional<int> input) {
  auto streams = open_streams(pump, spec);
  if (!streams) {  // some of them may be open
    pump.close_child_side(spec.local_rank, 0);
    return std::unexpected(streams.error());
  }
  streams->in = input.value_or(streams->in);
  auto pid = fork_or_spawn(spec, *streams);
  pump.close_child_side(spec.local_rank, pid ? *pid : 0);
  return pid;
}

std::string LinuxRunner::Impl::end_streams(int local_rank) {
  std::string tail = pump.stderr_tail(local_rank);
  pump.close_streams(local_rank);
  return tail;
}

// -- the zygote --------------------------------------------------------------------------------

// While a spared child runs, the kernel never reports ECHILD, so we check the list of our children.
// An orphan appears in that list before its dead parent disappears from it, because the parent is
// listed until we reap it.
bool LinuxRunner::Impl::nothing_left() const {
  return sweeper.spares_any() ? !sweeper.any_left() : !has_children();
}

Result<pid_t> LinuxRunner::Impl::fork_or_spawn(const ProcessSpec& spec,
                                               const ChildStreams& streams) {
  const auto taken = spec.replacement > 0 ? spares.take(spec, streams) : std::nullopt;
  const auto forked = !taken && spec.warm ? zygote.fork(spec, streams) : taken;
  return forked ? *forked : spawn_process(spec, streams, inherited_state(), settings.traceable);
}

bool LinuxRunner::Impl::is_ours(pid_t group) const {
  return std::ranges::any_of(descendants(),
                             [&](const ProcessRow& row) { return row.group == group; });
}

void LinuxRunner::Impl::signal_groups(int signo, GroupsOf which) {
  MUSTER_CHECK(signo > 0 && signo < NSIG);
  const bool may_be_stopped = signo != SIGSTOP && signo != SIGCONT && signo != SIGKILL;
  signo == SIGSTOP || signo == SIGCONT ? spares.signal(signo) : spares.stop();
  // The last member may have been reaped by a parent outside the group without our knowledge. The
  // pgid may then have been reused for an unrelated process.
  std::erase_if(workers.leaderless(), [&](const auto& group) { return !is_ours(group.first); });
  for (const pid_t group : workers.groups(which)) {
    MUSTER_CHECK(group > 1);
    if (signo == SIGKILL) {
      workers.mark_killed(group);
    }
    ::kill(-group, signo);
    if (may_be_stopped) {
      ::kill(-group, SIGCONT);
    }
  }
  post_turn();
}

void LinuxRunner::Impl::end(KillScope how) {
  spares.stop();
  scope = how;
  keep_killing();
  post_turn();
}

// The sweeper needs /proc to find processes and their names. Without /proc, only the groups are
// known.
void LinuxRunner::Impl::kill(KillScope what) {
  workers.mark_all_killed();
  if (!proc_is_ours()) {
    signal_groups(SIGKILL, GroupsOf::all_workers);
  }
  end(what);
}

void LinuxRunner::Impl::keep_killing() {
  if (scope != KillScope::everything) {
    sweeper.kill_groups(workers.killed_groups());
  } else if (has_children()) {
    sweeper.kill_all();
  }
}

LinuxRunner::LinuxRunner(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

LinuxRunner::~LinuxRunner() = default;

Result<std::unique_ptr<LinuxRunner>> LinuxRunner::open(asio::io_context& io,
                                                       ProcessObserver& observer,
                                                       const LinuxRunnerSettings& settings) {
  auto poller = Poller::open();
  MUSTER_RETURN_IF_ERROR(poller);
  auto child_signals = open_child_signals();
  MUSTER_RETURN_IF_ERROR(child_signals);
  auto impl =
      std::make_shared<Impl>(io, observer, std::move(*poller), std::move(*child_signals), settings);
  MUSTER_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<LinuxRunner>(new LinuxRunner(std::move(impl)));
}

Result<pid_t> LinuxRunner::spawn(const ProcessSpec& spec) {
  return impl_->spawn(spec);
}

void LinuxRunner::prepare_zygote(const ProcessSpec& spec, ZygoteObserver& observer) {
  impl_->zygote.prepare(spec, observer);
}

void LinuxRunner::keep_spares(SpareWorkers spares) {
  impl_->spares.keep(std::move(spares));
}

void LinuxRunner::signal_groups(int signo, GroupsOf which) {
  impl_->signal_groups(signo, which);
}

void LinuxRunner::signal_workers(int signo) {
  for (const pid_t pid : impl_->workers.live()) {
    if (signo == SIGKILL) {
      impl_->workers.mark_killed(pid);
    }
    ::kill(pid, signo);
  }
}

void LinuxRunner::kill_tree(int local_rank, int rank) {
  impl_->workers.mark_rank_killed(local_rank);
  impl_->flights.forget_all();  // the others create new communicators, with new recorders
  if (!proc_is_ours()) {
    for (const pid_t group : impl_->workers.killed_groups()) {
      ::kill(-group, SIGKILL);
    }
  }
  impl_->keep_killing();
  auto others = impl_->workers.live();
  std::erase_if(others,
                [&](pid_t pid) { return impl_->workers.find(pid)->local_rank == local_rank; });
  impl_->sweeper.kill_strays(rank, others);
  impl_->post_turn();
}

void LinuxRunner::await_nothing_left() {
  impl_->end(KillScope::killed_groups);
}

void LinuxRunner::kill_workers() {
  impl_->kill(KillScope::killed_groups);
}

void LinuxRunner::kill_everything() {
  impl_->kill(KillScope::everything);
}

std::vector<Leftover> LinuxRunner::ask_leftovers() {
  return impl_->sweeper.ask_all();
}

std::vector<Leftover> LinuxRunner::leftovers() const {
  return impl_->sweeper.leftovers();
}

LeftoversSeen LinuxRunner::look_at_leftovers() const {
  return impl_->sweeper.look();
}

std::vector<Leftover> LinuxRunner::take_killed() {
  return impl_->sweeper.take_killed();
}

std::vector<Survivor> LinuxRunner::survivors() const {
  auto rows = descendants();
  std::erase_if(rows, [&](const ProcessRow& row) { return impl_->sweeper.is_spared(row.pid); });
  return survivors_among(rows);
}

std::string LinuxRunner::stderr_tail(int local_rank) {
  return impl_->pump.stderr_tail(local_rank);
}

std::optional<std::uint64_t> LinuxRunner::output_bytes(int local_rank) const {
  return impl_->pump.output_bytes(local_rank);
}

std::vector<int> LinuxRunner::flight_recorders() const {
  return impl_->flights.descriptors();
}

bool LinuxRunner::take_terminal_signal(int signo) {
  return impl_->terminal.take_signal(signo);
}

void LinuxRunner::spare(pid_t pid) {
  impl_->sweeper.spare(pid);
}

void LinuxRunner::kill_worker(int local_rank) {
  for (const pid_t pid : impl_->workers.live()) {
    if (impl_->workers.find(pid)->local_rank == local_rank) {
      impl_->workers.mark_killed(pid);
      ::kill(proc_is_ours() ? pid : -pid, SIGKILL);
    }
  }
  impl_->keep_killing();
}

std::uint64_t LinuxRunner::output_bytes() const {
  return impl_->pump.bytes_read();
}

void LinuxRunner::finish_output(Duration timeout) {
  ConsoleWait wait{.left = timeout, .interrupt_fd = impl_->settings.interrupt_fd};
  impl_->pump.finish(wait);
}

void LinuxRunner::finish_console(Duration timeout) {
  ConsoleWait wait{.left = timeout, .interrupt_fd = impl_->settings.interrupt_fd};
  impl_->console.write_all(wait);
}

void LinuxRunner::tell_unshown() {
  impl_->console.tell_unshown();
}

bool LinuxRunner::has_lost_output() const {
  return impl_->console.has_lost_output();
}

}  // namespace muster
