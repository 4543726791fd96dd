// SPDX-License-Identifier: Apache-2.0
#include "process/output/console_sink.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/plural.hpp"

#include <climits>

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/stat.h>

namespace muster {
namespace {

// Buffers larger than this are freed when the queue is empty.
constexpr std::size_t kBufferKeptBytesMax = std::size_t{1024} * 1024;

// A console that accepts no data for this long is considered stalled.
constexpr Duration kStallTime = std::chrono::milliseconds(100);

int as_milliseconds(Duration duration) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::clamp<long>(ms, 0, INT_MAX));
}

// True if the reader has closed its end or the terminal has hung up.
bool is_reader_gone(int why, bool terminal) {
  return why == EPIPE || why == ECONNRESET || (why == EIO && terminal);
}

std::uint64_t count_lines(std::string_view text) {
  return static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
}

}  // namespace

std::string Unshown::describe(std::string_view console) const {
  std::string text = "muster: warning: ";
  text.append(console).append(" was not read in time; dropped: ");
  if (messages > 0) {
    text.append(counted(messages, "message"));
    text.append(" from muster").append(worker_bytes > 0 ? ", " : "");
  }
  if (worker_bytes > 0) {
    text.append(counted(worker_bytes, "byte")).append(" of the workers' output");
    text.append(in_files ? " (log files are complete)" : "");
  }
  return text.append("\n");
}

std::string Refused::describe(std::string_view stream) const {
  std::string text = "muster: warning: cannot write ";
  text.append(stream).append(": ").append(errno_text(why)).append("; lost: ");
  if (messages > 0) {
    text.append(counted(messages, "message")).append(" from muster").append(bytes > 0 ? ", " : "");
  }
  if (bytes > 0) {
    text.append(lines > 0 ? counted(lines, "line") : counted(bytes, "byte"));
    text.append(" of the workers' output").append(in_files ? " (log files are complete)" : "");
  }
  return text.append("\n");
}

ConsoleSink::ConsoleSink(int fd, Poller& poller, std::function<void()> on_room)
    : writer_(fd), poller_(poller), on_room_(std::move(on_room)) {}

ConsoleSink::~ConsoleSink() {
  poller_.forget(writer_.fd());
}

// True if the console accepted any data.
bool ConsoleSink::write_queue() {
  bool took = false;
  while (!closed_ && written_ < pending_.size()) {
    // The end of the last line was refused, so terminate that line first.
    const auto rest = torn_ ? std::string_view("\n") : std::string_view(pending_).substr(written_);
    const auto count = writer_.write_some(rest);
    if (count > 0) {
      written_ += torn_ ? 0 : static_cast<std::size_t>(count);
      torn_ = false;
      stalled_ = false;
      took = true;
    } else if (count == 0 || errno == EAGAIN) {
      break;
    } else {
      give_up_write(errno);
    }
  }
  if (written_ >= own_end_) {
    forget_own();
  }
  return took;
}

void ConsoleSink::give_up_write(int why) {
  if (is_reader_gone(why, writer_.is_terminal())) {
    closed_ = true;
    return;
  }
  refused_.why = refused_.why == 0 ? why : refused_.why;
  count_refused(std::string_view(pending_).substr(written_));
  torn_ = torn_ || (written_ > 0 && pending_[written_ - 1] != '\n');
  written_ = pending_.size();
}

// A partially written line counts as lost.
void ConsoleSink::count_refused(std::string_view rest) {
  const std::uint64_t lines = count_lines(rest);
  refused_.lines += lines - std::min(lines, own_lines_);
  refused_.bytes += rest.size() - std::min(rest.size(), own_bytes_);
  refused_.messages += own_count_;
}

Refused ConsoleSink::refused() const {
  Refused out = refused_;
  out.in_files = in_files_;
  return out;
}

void ConsoleSink::forget_own() {
  own_bytes_ = 0;
  own_count_ = 0;
  own_lines_ = 0;
}

void ConsoleSink::flush() {
  const bool was_full = !has_room();
  // Print the count of dropped output where the output is missing, after everything that was queued
  // earlier.
  if (write_queue() && unshown_.any() && has_room()) {
    pending_.append(pending_.back() == '\n' ? "" : "\n");
    pending_.append(take_unshown().describe("this console"));
    write_queue();
  }
  if (closed_ || written_ == pending_.size()) {
    clear();
  } else {
    shrink();
    watch();
  }
  if (was_full && has_room()) {
    on_room_();
  }
}

void ConsoleSink::say(std::string_view text) {
  if (own_bytes_ > 0 && own_bytes_ + text.size() > kOwnBytesMax) {
    ++unshown_.messages;
    return;
  }
  before_message_();
  pending_.append(text);
  own_bytes_ += text.size();
  own_lines_ += count_lines(text);
  ++own_count_;
  own_end_ = pending_.size();
  on_ready();
}

void ConsoleSink::shrink() {
  if (written_ >= kQueueBytesLow) {
    pending_.erase(0, written_);
    own_end_ -= std::min(own_end_, written_);
    written_ = 0;
  }
}

void ConsoleSink::watch() {
  if (!watched_) {
    watched_ = poller_.watch_room(writer_.fd(), *this).has_value();
  }
}

void ConsoleSink::clear() {
  pending_.clear();
  written_ = 0;
  forget_own();
  own_end_ = 0;
  if (pending_.capacity() > kBufferKeptBytesMax) {
    pending_.shrink_to_fit();
  }
  if (watched_) {
    poller_.forget(writer_.fd());
    watched_ = false;
  }
}

void ConsoleSink::on_ready() {
  flush();
}

bool ConsoleSink::wait_for_room(ConsoleWait& wait, bool all) {
  const std::size_t queued_before = queued();
  while (all ? !empty() : !has_room()) {
    if (stalled_ || wait.left <= Duration::zero()) {
      return false;
    }
    std::array<pollfd, 2> ready{{{.fd = writer_.fd(), .events = POLLOUT, .revents = 0},
                                 {.fd = wait.interrupt_fd, .events = POLLIN, .revents = 0}}};
    const auto began = steady_now();
    const int count = ::poll(ready.data(), ready.size(), as_milliseconds(wait.left));
    const auto waited = steady_now() - began;
    wait.left -= waited;
    if (count > 0 && ready[0].revents == 0) {
      wait.left = Duration::zero();  // interrupted
    }
    flush();
    stalled_ = count == 0 && queued() == queued_before && waited >= kStallTime;
  }
  return true;
}

// A partially written line is still completed.
Unshown ConsoleSink::give_up_queue() {
  const auto line_end = written_ == 0 || pending_[written_ - 1] == '\n'
                            ? written_
                            : std::min(pending_.find('\n', written_), pending_.size() - 1) + 1;
  const std::size_t dropped = pending_.size() - line_end;
  unshown_.messages += own_count_;
  unshown_.worker_bytes += dropped - std::min(dropped, own_bytes_);
  forget_own();
  own_end_ = 0;
  pending_.resize(line_end);
  return take_unshown();
}

Unshown ConsoleSink::take_unshown() {
  Unshown out = std::exchange(unshown_, {});
  out.in_files = in_files_;
  return out;
}

bool same_place(int one, int other) {
  struct stat left {};

  struct stat right {};

  return ::fstat(one, &left) == 0 && ::fstat(other, &right) == 0 && left.st_dev == right.st_dev &&
         left.st_ino == right.st_ino && left.st_rdev == right.st_rdev;
}

}  // namespace muster
