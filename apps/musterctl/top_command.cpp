// SPDX-License-Identifier: Apache-2.0
// top: shows the status on one screen, with one line per rank. Redraws it after events and keys,
// and every second, until the job ends or q is pressed, and then restores the terminal.
#include "base/clock.hpp"
#include "base/fd.hpp"
#include "choose_job.hpp"
#include "commands.hpp"
#include "io/wait_ready.hpp"
#include "status/fold.hpp"
#include "status/status_json.hpp"
#include "status/status_text.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr Duration kRefresh = std::chrono::seconds(1);
constexpr Duration kRefreshAfterEvent = std::chrono::milliseconds(100);  // events arrive in bursts

// Switches to the alternate screen and to unbuffered keys, and receives signals through a
// signalfd. The destructor restores everything.
class Terminal {
 public:
  Terminal() {
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int signo : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) {
      sigaddset(&wanted, signo);
    }
    ::sigprocmask(SIG_BLOCK, &wanted, &signals_before_);
    signals_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (::tcgetattr(0, &before_) == 0) {
      changed_ = true;
      termios keys = before_;
      keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      ::tcsetattr(0, TCSANOW, &keys);
    }
    print("\x1b[?1049h\x1b[?25l");
  }

  ~Terminal() {
    print("\x1b[?25h\x1b[?1049l");
    static_cast<void>(std::fflush(stdout));
    if (changed_) {
      ::tcsetattr(0, TCSANOW, &before_);
    }
    ::sigprocmask(SIG_SETMASK, &signals_before_, nullptr);
  }

  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] int signals() const { return signals_.get(); }

  // The descriptor for keys; -1, which poll ignores, if stdin is not a terminal.
  [[nodiscard]] int keys() const { return changed_ ? 0 : -1; }

  // The bytes of the keys that were pressed.
  [[nodiscard]] std::string read_keys() const {
    std::array<char, 64> bytes{};
    if (!changed_ || !wait_ready(0, POLLIN, steady_now())) {
      return "";
    }
    const auto count = ::read(0, bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<long>(0, count))};
  }

  // True if a signal requests exit.
  [[nodiscard]] bool asked_to_end() const {
    signalfd_siginfo signal{};
    return ::read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal) &&
           signal.ssi_signo != SIGWINCH;
  }

  static void show(const std::string& screen) {
    std::string out = "\x1b[H";
    for (const char c : screen) {
      out += c == '\n' ? "\x1b[K\r\n" : std::string(1, c);
    }
    print(out + "\x1b[J");
    static_cast<void>(std::fflush(stdout));
  }

 private:
  UniqueFd signals_;
  sigset_t signals_before_{};
  termios before_{};
  bool changed_ = false;
};

ScreenSize screen_size() {
  winsize size{};
  if (::ioctl(1, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

// Removes the first key from `bytes`: one byte, or an escape sequence such as "\x1b[5~".
std::string_view next_key(std::string_view& bytes) {
  std::size_t size = 1;
  if (bytes.starts_with("\x1b[")) {
    size = 2;
    while (size < bytes.size() && (bytes[size] < '@' || bytes[size] > '~')) {
      ++size;
    }
    size = std::min(size + 1, bytes.size());
  }
  const std::string_view key = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return key;
}

// Applies the keys to the view. True if one of them quits.
bool take_keys(std::string_view bytes, const std::string& status, TopView& view) {
  while (!bytes.empty()) {
    const std::string_view key = next_key(bytes);
    if (key == "q" || key == "Q") {
      return true;
    }
    take_key(view, key, status, screen_size());
  }
  return false;
}

// Redraws until the user quits (returns true) or the job has ended (false). Appends events from
// the stream to `seen`.
Result<bool> watch(const ControlOptions& options,
                   const JobSource& source,
                   HttpStream& stream,
                   JobStatus& seen) {
  const Terminal terminal;
  EventLines lines;
  TopView view;
  std::string status;
  TimePoint fetch_at{};
  while (true) {
    if (steady_now() >= fetch_at) {
      if (auto fetched = source.get("/v1/status", options.timeout)) {
        status = std::move(*fetched);
      }
      fetch_at = steady_now() + kRefresh;
    }
    if (!status.empty()) {
      Terminal::show(top_screen(status, screen_size(), view));
    }
    std::array<pollfd, 3> ready{
        {{stream.fd(), POLLIN, 0}, {terminal.signals(), POLLIN, 0}, {terminal.keys(), POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), poll_timeout(fetch_at));
    if (terminal.asked_to_end() || take_keys(terminal.read_keys(), status, view)) {
      return true;
    }
    if (ready[0].revents == 0) {
      continue;
    }
    fetch_at = std::min(fetch_at, steady_now() + kRefreshAfterEvent);
    const auto part = stream.read_some(steady_now() + options.timeout);
    MUSTER_RETURN_IF_ERROR(part);
    if (part->empty()) {
      return false;
    }
    const auto events = lines.feed(*part);
    MUSTER_RETURN_IF_ERROR(events);
    for (std::size_t at = 0; at < events->size(); at = events->find('\n', at) + 1) {
      fold_event(seen, std::string_view(*events).substr(at, events->find('\n', at) - at));
    }
  }
}

}  // namespace

Result<int> run_top(const ControlOptions& options) {
  if (::isatty(1) != 1) {
    return failure(Errc::usage, "top needs a terminal; use musterctl status");
  }
  const auto source = find_source(options);
  MUSTER_RETURN_IF_ERROR(source);
  auto stream = source->ask("/v1/events", steady_now() + options.timeout);
  MUSTER_RETURN_IF_ERROR(stream);
  JobStatus seen;
  const auto asked = watch(options, *source, *stream, seen);
  MUSTER_RETURN_IF_ERROR(asked);
  if (!*asked) {
    print(status_text(status_json(seen, seen.changed)));
  }
  return 0;
}

}  // namespace muster
