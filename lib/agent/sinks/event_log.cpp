// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/event_log.hpp"

#include "agent/events/event_text.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace muster {

EventLog::EventLog(Open open,
                   Clock now,
                   std::function<void(const std::string&)> trouble,
                   const EventLogLimits& limits)
    : open_(std::move(open)), now_(std::move(now)), trouble_(std::move(trouble)), limits_(limits) {}

void EventLog::take(const JobEvent& event) {
  if (given_up_) {
    return;
  }
  const auto* begun = std::get_if<event::RoundBegun>(&event.what);
  if (begun != nullptr && write_ && !begun->logs.empty()) {
    open_again(begun->logs);
  } else if (begun != nullptr && !write_ && !begun->logs.empty()) {
    open(begun->logs);
  } else if (begun != nullptr && !write_) {
    given_up_ = true;  // the directory will never exist
    return;
  }
  if (write_) {
    write(event_json(event));
  } else if (!given_up_ && kept_.size() < limits_.kept_bytes) {
    kept_ += event_json(event);
  }
}

void EventLog::open(const std::string& folder) {
  auto opened = open_(folder);
  if (!opened) {
    give_up(opened.error().message);
    return;
  }
  write_ = std::move(*opened);
  write(std::exchange(kept_, {}));
}

// If the file was removed or renamed in the meantime, creates a new one; otherwise keeps the
// existing file.
void EventLog::open_again(const std::string& folder) {
  if (auto opened = open_(folder)) {
    write_ = std::move(*opened);
  }
}

void EventLog::write(std::string_view text) {
  if (given_up_) {
    return;
  }
  if (written_ + text.size() > limits_.file_bytes) {
    give_up(fmt::format("events.jsonl has reached {} MiB", limits_.file_bytes >> 20));
    return;
  }
  const TimePoint begun = now_();
  if (append(text)) {
    count_time(now_() - begun);
  }
}

// If the last line does not fit, it may be truncated.
bool EventLog::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write_(text);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      give_up(system_error("cannot write 'events.jsonl'", errno).message);
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
    written_ += static_cast<std::size_t>(count);
  }
  return true;
}

// Writes to regular files ignore O_NONBLOCK and may block on the disk, so slow writes are measured.
void EventLog::count_time(Duration taken) {
  slow_ += taken > kSlowEventWrite ? taken : Duration{};
  if (slow_ > kSlowEventWritesMax) {
    give_up("writes to 'events.jsonl' are too slow (" + describe(slow_) + " so far)");
  }
}

void EventLog::give_up(const std::string& reason) {
  given_up_ = true;
  write_ = nullptr;
  kept_.clear();
  trouble_(reason + "; no further events will be logged");
}

Result<EventLog::Write> open_event_file(const std::string& folder) {
  const std::string path = folder + "/events.jsonl";
  const auto file = std::make_shared<UniqueFd>(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!*file) {
    return std::unexpected(system_error("cannot create '" + path + "'", errno));
  }
  return [file](std::string_view text) { return ::write(file->get(), text.data(), text.size()); };
}

}  // namespace muster
