// SPDX-License-Identifier: Apache-2.0
#include "remote/remote_agent.hpp"

#include "base/clock.hpp"
#include "base/endpoint.hpp"
#include "base/logger.hpp"
#include "base/stream_writer.hpp"
#include "base/text.hpp"
#include "io/held_port.hpp"
#include "io/wait_ready.hpp"
#include "process/start/inherited_state.hpp"
#include "process/start/spawn.hpp"
#include "process/tree/sweeper.hpp"
#include "process/values/exit_status.hpp"
#include "remote/children.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr Duration kAgentSweepTimeout = std::chrono::milliseconds(1500);
constexpr Duration kMessageTimeout = std::chrono::milliseconds(250);
// The interval of heartbeats, which let the kernel detect a dead connection.
constexpr Duration kBeatInterval = std::chrono::seconds(30);
constexpr std::size_t kReadBytes = std::size_t{32} * 1024;
// The maximum credit that a launcher grants at once.
constexpr std::int64_t kCreditMax = std::int64_t{1} << 30;
constexpr int kFailed = 70;

// Reserves the rendezvous port for the first node's launcher. If the range is empty, any free port
// is used.
Result<HeldPort> hold_port(const std::string& range) {
  if (range.empty()) {
    return HeldPort::take(PortRange{});
  }
  const auto ports = parse_port_range(range);
  if (!ports) {
    return failure(Errc::usage, "--port-range=" + range + ": must be A-B");
  }
  return HeldPort::take(PortRange{ports->first, ports->second});
}

// Parses SSH_CONNECTION ("10.0.0.5 51234 10.0.0.7 22"): the caller's address and ours.
std::pair<std::string, std::string> addresses_of_connection(const Environ& environ) {
  const auto words = split(environ.get("SSH_CONNECTION").value_or(""), ' ');
  return words.size() == 4 ? std::pair(words[0], words[2]) : std::pair<std::string, std::string>();
}

// Returns a descriptor to use as the agent's standard input: a memfd that contains the job's token
// and that only this user's processes can open, or /dev/null if there is no token.
Result<UniqueFd> input_with(const std::string& token) {
  if (token.empty()) {
    return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  UniqueFd fd(::memfd_create("token", MFD_CLOEXEC));
  const auto size = static_cast<ssize_t>(token.size());
  if (!fd || ::fchmod(fd.get(), 0600) != 0 ||
      ::write(fd.get(), token.data(), token.size()) != size) {
    return std::unexpected(system_error("cannot pass the job's token", errno));
  }
  return fd;
}

class RemoteAgent final : public RshObserver {
 public:
  RemoteAgent(const RemoteAgentSetup& setup, Poller poller)
      : setup_(setup), poller_(std::move(poller)) {
    input_.act = [this] { read_input(); };
    room_.act = [this] { write_up(); };
    streams_[0].port.act = [this] { read_stream(streams_[0]); };
    streams_[1].port.act = [this] { read_stream(streams_[1]); };
    streams_[0].kind = RemoteFrameKind::output;
    streams_[1].kind = RemoteFrameKind::error_output;
  }

  int run();

  void on_frame(RshChild& child, const Frame& frame) override;
  void on_gone(RshChild& child) override;

 private:
  struct Port final : Watcher {
    std::function<void()> act;

    void on_ready() override { act(); }
  };

  // One output stream of the launcher on this host.
  struct Stream {
    Port port;
    RemoteFrameKind kind{};
    UniqueFd fd;
    bool watched = false;
  };

  [[nodiscard]] Result<void> open();
  void read_input();
  void take(const Frame& frame);
  void take_setup(const Frame& frame);
  void take_start(const Frame& frame);
  [[nodiscard]] Result<void> start_share();
  [[nodiscard]] Result<void> start_launcher(const StartMessage& message);
  void take_signal(const Frame& frame);
  void read_stream(Stream& stream);
  void watch_streams();
  void launcher_ended(pid_t pid, ExitStatus status);
  void tell_end(int code);
  void send_up(RemoteFrameKind kind, std::string payload);
  void send_up(const Frame& frame);
  void write_up();
  void fail(const std::string& why);
  void beat();

  [[nodiscard]] bool over() const;

  const RemoteAgentSetup& setup_;
  Poller poller_;
  RshChildren children_{poller_, *this};
  Port input_;
  Port room_;
  FrameReader frames_{true};
  SetupMessage place_;
  bool placed_ = false;
  std::optional<HeldPort> held_;  // never released, because the rendezvous may use the port again
  std::array<Stream, 2> streams_;
  pid_t launcher_ = 0;
  bool ended_ = false;      // the launcher has exited and this was reported
  std::size_t credit_ = 0;  // bytes of output that may be sent
  std::string up_;
  bool up_watched_ = false;
  bool broken_ = false;  // the connection is lost
  TimePoint next_beat_;
};

Result<void> RemoteAgent::open() {
  // If the launcher is killed, its orphaned child processes are reparented to us, so that we can
  // kill them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const int fd : {0, 1}) {
    if (auto set = set_nonblocking(fd); !set) {
      return set;
    }
  }
  if (auto opened =
          children_.open([this](pid_t pid, ExitStatus status) { launcher_ended(pid, status); });
      !opened) {
    return opened;
  }
  return poller_.watch_input(0, input_);
}

int RemoteAgent::run() {
  if (auto opened = open(); !opened) {
    fail(opened.error().message);
    return kFailed;
  }
  up_ = kGreeting;
  next_beat_ = steady_now() + kBeatInterval;
  while (!broken_ && !over()) {
    poller_.dispatch(
        poll_timeout(std::min(next_beat_, children_.next_deadline().value_or(next_beat_))));
    children_.tick(steady_now());
    beat();
    watch_streams();
  }
  static_cast<void>(kill_descendants_until_none({}, kAgentSweepTimeout));
  return broken_ ? kFailed : 0;
}

bool RemoteAgent::over() const {
  return ended_ && children_.all_gone() && up_.empty();
}

void RemoteAgent::beat() {
  if (steady_now() >= next_beat_) {
    next_beat_ = steady_now() + kBeatInterval;
    if (placed_ && up_.empty()) {
      send_up(RemoteFrameKind::beat, "");
    }
  }
}

// Prints errors to standard error. The process that started the remote shell shows them if this
// process exits without answering.
void RemoteAgent::fail(const std::string& why) {
  write_within(2, why + "\n", kMessageTimeout);
  broken_ = true;
}

void RemoteAgent::read_input() {
  std::array<char, kReadBytes> bytes;
  const auto count = ::read(0, bytes.data(), bytes.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count <= 0) {
    broken_ = true;
    return;
  }
  frames_.feed({bytes.data(), static_cast<std::size_t>(count)});
  while (!broken_) {
    const auto frame = frames_.next();
    if (!frame) {
      fail(frame.error().message);
      return;
    }
    if (!*frame) {
      return;
    }
    take(**frame);
  }
}

void RemoteAgent::take(const Frame& frame) {
  if (frame.kind == RemoteFrameKind::setup && !placed_) {
    take_setup(frame);
  } else if (!placed_) {
    fail("the first message is not a setup message");
  } else if (frame.kind == RemoteFrameKind::signal) {
    take_signal(frame);
  } else if (frame.host != place_.host) {
    children_.send(frame.host, frame.kind, frame.payload);
  } else if (frame.kind == RemoteFrameKind::start) {
    take_start(frame);
  } else if (frame.kind == RemoteFrameKind::credit) {
    credit_ += static_cast<std::size_t>(
        std::clamp<std::int64_t>(parse_int(frame.payload).value_or(0), 0, kCreditMax));
  }
}

void RemoteAgent::take_setup(const Frame& frame) {
  auto place = decode_setup(frame.payload);
  if (!place) {
    fail(place.error().message);
    return;
  }
  place_ = std::move(*place);
  placed_ = true;
  if (place_.binds) {
    auto held = hold_port(place_.port_range);
    if (!held) {
      fail(held.error().message);
      return;
    }
    held_ = std::move(*held);
  }
  if (auto started = start_share(); !started) {
    fail(started.error().message);
    return;
  }
  const auto [caller, own] = addresses_of_connection(setup_.environ);
  const std::uint16_t port = held_ ? held_->number() : std::uint16_t{0};
  send_up(RemoteFrameKind::hello, encode(HelloMessage{setup_.version, own, port, caller}));
}

Result<void> RemoteAgent::start_share() {
  if (place_.targets.empty() || place_.fanout < 1) {
    return {};
  }
  children_.retry_until(steady_now() + std::chrono::seconds(place_.retry_seconds));
  const std::size_t first = place_.host + std::size_t{1};
  const std::size_t end = first + place_.targets.size();
  for (const Branch& branch : branches(first, end, static_cast<std::size_t>(place_.fanout))) {
    const std::string& target = place_.targets[branch.head - first];
    SetupMessage setup = place_;
    setup.host = static_cast<std::uint16_t>(branch.head);
    setup.name = JobHost{target, {}}.name();
    setup.binds = false;
    setup.targets.assign(
        place_.targets.begin() + static_cast<std::ptrdiff_t>(branch.head + 1 - first),
        place_.targets.begin() + static_cast<std::ptrdiff_t>(branch.end - first));
    auto started = children_.start({branch,
                                    JobHost{target, {}}.name(),
                                    rsh_argv(place_.rsh, target, place_.command),
                                    setup_.environ.to_block()},
                                   setup);
    if (!started) {
      return started;
    }
  }
  return {};
}

void RemoteAgent::take_start(const Frame& frame) {
  const auto message = decode_start(frame.payload);
  if (!message || launcher_ != 0 || ended_) {
    fail(message ? "received a second start message" : message.error().message);
    return;
  }
  if (auto started = start_launcher(*message); !started) {
    const LogTo head([this](std::string_view line) {
      send_up(RemoteFrameKind::error_output, std::string(line));
    });
    log_error(place_.name + ": " + started.error().message);
    tell_end(kFailed);
  }
}

Result<void> RemoteAgent::start_launcher(const StartMessage& message) {
  if (::chdir(message.folder.c_str()) != 0) {
    return std::unexpected(system_error("cannot change to " + message.folder, errno));
  }
  Environ environ = setup_.environ;
  for (const std::string& variable : message.environment) {
    const auto equals = variable.find('=');
    if (equals != std::string::npos) {
      environ.set(variable.substr(0, equals), variable.substr(equals + 1));
    }
  }
  for (const char* own : {"MUSTER_HOSTS", "MUSTER_HOSTFILE", "MUSTER_TOKEN"}) {
    environ.erase(own);
  }
  environ.set("PWD", message.folder);
  ProcessSpec spec;
  spec.argv = {setup_.own_path.empty() ? "muster" : setup_.own_path};
  std::ranges::copy(message.args, std::back_inserter(spec.argv));
  spec.environment = environ.to_block();
  auto out = message.one_sink ? Result<PipeEnds>(PipeEnds{}) : make_pipe();
  auto err = out ? make_pipe() : Result<PipeEnds>(std::unexpected(out.error()));
  MUSTER_RETURN_IF_ERROR(err);
  const auto in = input_with(message.token);
  MUSTER_RETURN_IF_ERROR(in);
  const auto pid =
      spawn_process(spec,
                    {in->get(), (out->write ? out : err)->write.get(), err->write.get()},
                    inherited_state());
  MUSTER_RETURN_IF_ERROR(pid);
  launcher_ = *pid;
  streams_[0].fd = std::move(out->read);
  streams_[1].fd = std::move(err->read);
  for (const Stream& stream : streams_) {
    if (auto set = stream.fd ? set_nonblocking(stream.fd.get()) : Result<void>(); !set) {
      return set;
    }
  }
  return {};
}

void RemoteAgent::take_signal(const Frame& frame) {
  const auto signo = parse_int(frame.payload).value_or(0);
  if (signo > 0 && signo < NSIG && launcher_ != 0) {
    ::kill(launcher_, static_cast<int>(signo));
  }
  children_.send_all(RemoteFrameKind::signal, frame.payload);
}

// Without credit, output stays in the launcher's pipes. Other frames need no credit, so the report
// of this host's exit is never queued behind unread output.
void RemoteAgent::watch_streams() {
  for (Stream& stream : streams_) {
    const bool wanted = credit_ > 0 && stream.fd;
    if (wanted && !stream.watched) {
      stream.watched = poller_.watch_input(stream.fd.get(), stream.port).has_value();
    } else if (!wanted && stream.watched) {
      poller_.forget(stream.fd.get());
      stream.watched = false;
    }
  }
}

void RemoteAgent::read_stream(Stream& stream) {
  std::array<char, kReadBytes> bytes;
  if (credit_ == 0) {
    return;  // another stream has used up the credit
  }
  const auto count = ::read(stream.fd.get(), bytes.data(), std::min(bytes.size(), credit_));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count > 0) {
    credit_ -= static_cast<std::size_t>(count);
    send_up(stream.kind, std::string(bytes.data(), static_cast<std::size_t>(count)));
    return;
  }
  poller_.forget(stream.fd.get());
  stream.watched = false;
  stream.fd.reset();
}

// The launcher kills its descendants before it exits, so no process can write to its pipes any
// more. The remaining output is limited by the size of the pipes and is sent without credit.
void RemoteAgent::launcher_ended(pid_t pid, ExitStatus status) {
  if (pid != launcher_ || ended_) {
    return;
  }
  launcher_ = 0;
  for (Stream& stream : streams_) {
    std::array<char, kReadBytes> bytes;
    while (stream.fd) {
      const auto count = ::read(stream.fd.get(), bytes.data(), bytes.size());
      if (count <= 0) {
        poller_.forget(stream.fd.get());
        stream.fd.reset();
      } else {
        send_up(stream.kind, std::string(bytes.data(), static_cast<std::size_t>(count)));
      }
    }
    stream.watched = false;
  }
  tell_end(status.shell_code());
}

void RemoteAgent::tell_end(int code) {
  ended_ = true;
  send_up(RemoteFrameKind::ended, std::to_string(code));
}

void RemoteAgent::send_up(RemoteFrameKind kind, std::string payload) {
  send_up({kind, place_.host, std::move(payload)});
}

void RemoteAgent::send_up(const Frame& frame) {
  append_frame(up_, frame);
  write_up();
}

void RemoteAgent::write_up() {
  while (!up_.empty() && !broken_) {
    const auto count = ::write(1, up_.data(), up_.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && errno == EAGAIN) {
      if (!std::exchange(up_watched_, true)) {
        [[maybe_unused]] const auto watched = poller_.watch_room(1, room_);
      }
      return;
    }
    if (count < 0) {
      broken_ = true;
      return;
    }
    up_.erase(0, static_cast<std::size_t>(count));
  }
  if (std::exchange(up_watched_, false)) {
    poller_.forget(1);
  }
}

// Forwards frames from hosts further down the tree unchanged. Credit limits the amount of data.
void RemoteAgent::on_frame(RshChild& /*child*/, const Frame& frame) {
  send_up(frame);
}

// Reports all hosts of the branch as lost. The receiver ignores hosts that have already exited.
void RemoteAgent::on_gone(RshChild& child) {
  const std::string why = fmt::format("{} (from {})", child.describe_end(), place_.name);
  for (std::size_t host = child.branch().head; host < child.branch().end; ++host) {
    send_up({RemoteFrameKind::lost, static_cast<std::uint16_t>(host), why});
  }
}

}  // namespace

int run_remote_agent(const RemoteAgentSetup& setup) {
  auto poller = Poller::open();
  if (!poller) {
    write_within(2, poller.error().message + "\n", kMessageTimeout);
    return kFailed;
  }
  return RemoteAgent(setup, std::move(*poller)).run();
}

}  // namespace muster
