// SPDX-License-Identifier: Apache-2.0
#include "remote/hosts_launcher.hpp"

#include "base/clock.hpp"
#include "base/stream_writer.hpp"
#include "base/text.hpp"
#include "io/wait_ready.hpp"
#include "process/guard/guard.hpp"
#include "process/output/console.hpp"
#include "process/tree/sweeper.hpp"
#include "remote/children.hpp"
#include "remote/hosts_core.hpp"
#include "remote/machine_lines.hpp"
#include "remote/repeated_messages.hpp"
#include "remote/working_folder.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include <unistd.h>

namespace muster {
namespace {

constexpr Duration kConsoleTimeout = std::chrono::seconds(1);  // same timeout as for a local job
// Limit on the pending console output of all hosts together. Each host gets a share of it.
constexpr std::size_t kUnshownBytesMax = std::size_t{64} * 1024 * 1024;
constexpr std::size_t kShareBytesMin = std::size_t{64} * 1024;
constexpr std::size_t kShareBytesMax = std::size_t{1024} * 1024;
constexpr Duration kSweepTimeout = std::chrono::milliseconds(1500);
constexpr int kNotices = 16;

HostsCoreSettings settings_of(const HostsSetup& setup) {
  HostsCoreSettings out;
  for (const JobHost& host : setup.request.hosts) {
    out.names.push_back(host.name());
  }
  out.nodes_min = static_cast<std::size_t>(setup.request.nodes_min);
  out.grace = setup.request.grace;
  out.retry = setup.request.reach_timeout;
  out.version = setup.version;
  return out;
}

class HostsLauncher final : public RshObserver {
 public:
  HostsLauncher(const HostsSetup& setup, GuardLink link, Poller poller)
      : setup_(setup),
        link_(std::move(link.signals)),
        poller_(std::move(poller)),
        core_(settings_of(setup), steady_now()),
        folder_(working_folder(setup.environ)),
        share_(std::clamp(
            kUnshownBytesMax / setup.request.hosts.size(), kShareBytesMin, kShareBytesMax)),
        owed_(setup.request.hosts.size()) {
    console_.set_on_room([this] { grant_all(); });
    link_port_.act = [this] { read_link(); };
  }

  int run();

  void on_frame(RshChild& child, const Frame& frame) override;
  void on_gone(RshChild& child) override;
  void on_retry(RshChild& child) override;

 private:
  struct LinkPort final : Watcher {
    std::function<void()> act;

    void on_ready() override { act(); }
  };

  void start_all_shells();
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  void take_hello(RshChild& child, const Frame& frame);
  void show(const Frame& frame, int stream);
  [[nodiscard]] MachineLines& lines_of(int stream);
  void show_unfinished();
  void say(const hosts_effect::Say& said);
  void finish_lines(std::size_t host);
  void grant(std::size_t host);
  void grant_all();
  void read_link();
  void perform();
  void perform_one(const HostsEffect& effect);
  void pass(const hosts_effect::PassSignal& signal);
  [[nodiscard]] bool is_one_stream();
  void start_agents();
  void start_agent(std::size_t host, const std::string& endpoint);

  const HostsSetup& setup_;
  UniqueFd link_;
  Poller poller_;
  Console console_{poller_};
  HostsCore core_;
  HostsEffects effects_;
  RshChildren children_{poller_, *this};
  LinkPort link_port_;
  RepeatedMessages messages_;
  MachineLines output_{console_.sink(1).is_terminal(), messages_};
  MachineLines error_{console_.sink(2).is_terminal(),
                      messages_};  // unused if both streams go to the same file
  HelloMessage first_;             // hello from the first host
  std::string caller_;             // address of this host as seen by another host
  std::string folder_;
  std::size_t share_;              // limit on pending output per host, in bytes
  std::vector<std::size_t> owed_;  // credit not granted yet, by host
  std::optional<int> code_;
};

void HostsLauncher::start_all_shells() {
  const HostsRequest& request = setup_.request;
  children_.retry_until(steady_now() + request.reach_timeout);
  const auto fanout = static_cast<std::size_t>(request.fanout);
  for (const Branch& branch : branches(0, request.hosts.size(), fanout)) {
    const JobHost& head = request.hosts[branch.head];
    const auto started = children_.start({branch,
                                          head.name(),
                                          start_argv(request, head),
                                          start_environ(request, head, setup_.environ).to_block()},
                                         setup_for(request, branch));
    if (!started) {
      core_.give_up(steady_now(), "--rsh: " + started.error().message, effects_);
      return;
    }
  }
}

std::optional<TimePoint> HostsLauncher::next_deadline() const {
  std::optional<TimePoint> next = core_.next_deadline();
  for (const auto other :
       {children_.next_deadline(), output_.next_deadline(), error_.next_deadline()}) {
    next = next && other ? std::min(*next, *other) : next ? next : other;
  }
  return next;
}

int HostsLauncher::run() {
  [[maybe_unused]] const auto watched = poller_.watch_input(link_.get(), link_port_);
  if (auto opened = children_.open({}); !opened) {
    log_error(opened.error().message);
    return 70;
  }
  start_all_shells();
  perform();
  while (!code_) {
    const auto deadline = next_deadline();
    poller_.dispatch(deadline ? poll_timeout(*deadline) : -1);
    children_.tick(steady_now());
    show_unfinished();
    core_.tick(steady_now(), effects_);
    perform();
  }
  ConsoleWait wait{kConsoleTimeout, link_.get()};
  console_.write_all(wait);
  console_.tell_unshown();
  console_.write_all(wait);
  static_cast<void>(kill_descendants_until_none({}, kSweepTimeout));
  return *code_ == 0 && console_.has_lost_output() ? kOutputLostCode : *code_;
}

void HostsLauncher::on_frame(RshChild& child, const Frame& frame) {
  const TimePoint now = steady_now();
  switch (frame.kind) {
    case RemoteFrameKind::hello:
      take_hello(child, frame);
      break;
    case RemoteFrameKind::output:
      show(frame, 1);
      break;
    case RemoteFrameKind::error_output:
      show(frame, 2);
      break;
    case RemoteFrameKind::ended:
      finish_lines(frame.host);
      core_.ended(now, frame.host, parse_int(frame.payload).value_or(1) & 255, effects_);
      break;
    case RemoteFrameKind::lost:
      finish_lines(frame.host);
      core_.lost(now, frame.host, last_line_of(frame.payload), effects_);
      break;
    case RemoteFrameKind::beat:
      break;
    case RemoteFrameKind::setup:
    case RemoteFrameKind::start:
    case RemoteFrameKind::signal:
    case RemoteFrameKind::credit:
      child.fail("received a message that only this side may send");
      break;
  }
}

void HostsLauncher::take_hello(RshChild& child, const Frame& frame) {
  auto message = decode_hello(frame.payload);
  if (!message) {
    child.fail(message.error().message);
    return;
  }
  if (frame.host == 0) {
    first_ = *message;
  }
  // Use the caller's address only from hosts that we contacted directly. An agent on this host
  // inherits our own SSH_CONNECTION.
  if (frame.host == child.branch().head && !setup_.request.hosts[frame.host].is_local) {
    caller_ = message->caller;
  }
  core_.hello(steady_now(), frame.host, *message, effects_);
}

// Prints only whole lines if there are several hosts, otherwise bytes as they arrive. While the job
// is stopping, output that the console does not accept is discarded and only counted.
void HostsLauncher::show(const Frame& frame, int stream) {
  ConsoleSink& sink = console_.sink(stream);
  owed_[frame.host] += frame.payload.size();
  sink.note_unfiled();  // it is unknown whether the hosts have log files
  if (!sink.has_room() && core_.is_ending()) {
    sink.note_unshown(frame.payload.size());
  } else {
    if (setup_.request.hosts.size() == 1) {
      sink.buffer() += frame.payload;
    } else {
      lines_of(stream).feed(steady_now(), frame.host, stream, frame.payload, sink.buffer());
    }
    sink.flush();
  }
  grant(frame.host);
}

// Small amounts of credit are combined into one grant. While the console is blocked, no host
// receives credit, but all connections are still read, so that a host's exit is noticed.
void HostsLauncher::grant(std::size_t host) {
  const bool room = console_.sink(1).has_room() && console_.sink(2).has_room();
  if ((room || core_.is_ending()) && owed_[host] >= share_ / 4) {
    children_.send(static_cast<std::uint16_t>(host),
                   RemoteFrameKind::credit,
                   std::to_string(std::exchange(owed_[host], 0)));
  }
}

void HostsLauncher::grant_all() {
  for (std::size_t host = 0; host < owed_.size(); ++host) {
    grant(host);
  }
}

MachineLines& HostsLauncher::lines_of(int stream) {
  return &console_.sink(stream) == &console_.sink(1) ? output_ : error_;
}

void HostsLauncher::show_unfinished() {
  for (const int stream : {1, 2}) {
    ConsoleSink& sink = console_.sink(stream);
    lines_of(stream).tick(steady_now(), sink.buffer());
    sink.flush();
  }
}

void HostsLauncher::finish_lines(std::size_t host) {
  for (const int stream : {1, 2}) {
    ConsoleSink& sink = console_.sink(stream);
    lines_of(stream).finish(host, sink.buffer());
    sink.flush();
  }
}

void HostsLauncher::say(const hosts_effect::Say& said) {
  lines_of(2).break_line(console_.sink(2).buffer());
  logger().log(said.level, said.text);
}

void HostsLauncher::on_gone(RshChild& child) {
  const std::string why = child.describe_end();
  for (std::size_t host = child.branch().head; host < child.branch().end; ++host) {
    finish_lines(host);
    core_.lost(steady_now(), host, why, effects_);
  }
}

void HostsLauncher::read_link() {
  std::array<SignalNotice, kNotices> notices{};
  const auto count = ::read(link_.get(), notices.data(), sizeof(notices));
  if (count <= 0) {
    poller_.forget(link_.get());
    core_.guard_lost(steady_now(), effects_);
    return;
  }
  // The guard writes each notice atomically, so partial reads cannot occur.
  for (std::size_t i = 0; i < static_cast<std::size_t>(count) / sizeof(SignalNotice); ++i) {
    core_.signal(steady_now(), notices[i].signo, effects_);
  }
}

// Effects may produce further effects.
void HostsLauncher::perform() {
  do {
    for (const HostsEffect& effect : std::exchange(effects_, {})) {
      perform_one(effect);
    }
    if (children_.all_gone()) {
      core_.all_gone(effects_);
    }
  } while (!effects_.empty());
}

void HostsLauncher::perform_one(const HostsEffect& effect) {
  if (std::holds_alternative<hosts_effect::StartAll>(effect)) {
    start_agents();
  } else if (const auto* passed = std::get_if<hosts_effect::PassSignal>(&effect)) {
    pass(*passed);
  } else if (const auto* said = std::get_if<hosts_effect::Say>(&effect)) {
    say(*said);
  } else if (std::holds_alternative<hosts_effect::CloseAll>(effect)) {
    children_.close_all();
  } else if (const auto* finished = std::get_if<hosts_effect::Finish>(&effect)) {
    code_ = finished->code;
  }
}

void HostsLauncher::pass(const hosts_effect::PassSignal& signal) {
  if (signal.is_own) {
    messages_.hide_interruption(signal_name(signal.signo));
  }
  children_.send_all(RemoteFrameKind::signal, std::to_string(signal.signo));
  grant_all();  // once the job is stopping, hosts get credit even if the console is blocked
}

void HostsLauncher::on_retry(RshChild& child) {
  core_.retrying(child.branch().head, child.describe_end());
}

void HostsLauncher::start_agents() {
  const std::string endpoint = endpoint_of(setup_.request, first_, caller_);
  const std::size_t count = setup_.request.hosts.size();
  if (endpoint.empty() && count > 1) {
    core_.give_up(steady_now(),
                  "the other hosts cannot reach the first one, " +
                      setup_.request.hosts.front().name() +
                      ". Use a name that they can resolve, or --rdzv-endpoint",
                  effects_);
    return;
  }
  for (std::size_t host = 0; host < count; ++host) {
    start_agent(host, endpoint);
  }
}

// With > log 2>&1, a host sends a single stream, so that its lines keep their order. With several
// hosts, messages are distinguished from output by either stream or label, so at least one of them
// must be available.
bool HostsLauncher::is_one_stream() {
  const bool is_told = setup_.request.hosts.size() == 1 || setup_.request.label;
  return is_told && &console_.sink(1) == &console_.sink(2);
}

void HostsLauncher::start_agent(std::size_t host, const std::string& endpoint) {
  StartMessage message{
      folder_, agent_args(setup_.request, host, endpoint), {}, setup_.token, is_one_stream()};
  for (const auto& [name, value] : setup_.request.environment) {
    message.environment.push_back(name + "=" + value);
  }
  std::string payload = encode(message);
  if (payload.size() > kFrameBytesMax) {
    core_.give_up(steady_now(), "the job's arguments and variables are too long", effects_);
    return;
  }
  children_.send(static_cast<std::uint16_t>(host), RemoteFrameKind::start, std::move(payload));
  owed_[host] = share_;
  grant(host);
}

}  // namespace

int run_hosts(const HostsSetup& setup, GuardLink link) {
  auto poller = Poller::open();
  if (!poller) {
    return 70;
  }
  return HostsLauncher(setup, std::move(link), std::move(*poller)).run();
}

}  // namespace muster
