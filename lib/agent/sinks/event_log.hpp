// SPDX-License-Identifier: Apache-2.0
// EventLog: the sink that writes events.jsonl, beside the logs that the user asked for. What comes
// before there is a folder is kept until then. A file that cannot be written (a full disk) is
// reported once and costs the job nothing else; so is one on a disk that holds us up. Owned by the
// agent; resource.
#pragma once

#include "agent/events/event_stream.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace muster {

// A job that runs for a year must not fill a disk with the messages of its nodes.
inline constexpr std::size_t kEventLogBytesMax = std::size_t{64} << 20;

// A write that takes longer than this is a slow one, and so long all slow ones together may hold
// the launcher up. Then the job is more important than its log of events.
inline constexpr Duration kSlowEventWrite = std::chrono::milliseconds(100);
inline constexpr Duration kSlowEventWritesMax = std::chrono::seconds(1);

// Before there is a folder: nodes that wait for others for days.
inline constexpr std::size_t kEventsKeptBytesMax = std::size_t{1} << 20;

struct EventLogLimits {
  std::size_t file_bytes = kEventLogBytesMax;
  std::size_t kept_bytes = kEventsKeptBytesMax;
};

class EventLog final : public EventSink {
 public:
  // Appends some bytes and returns how many, or -1 with errno, as ::write does.
  using Write = std::function<ssize_t(std::string_view)>;
  // Makes the file in this folder, unless it is there, and returns how to write to it.
  using Open = std::function<Result<Write>(const std::string& folder)>;

  using Clock = std::function<TimePoint()>;

  // Reports at most once, through `trouble`, why there are no more lines.
  EventLog(Open open,
           Clock now,
           std::function<void(const std::string&)> trouble,
           const EventLogLimits& limits = {});

  void take(const JobEvent& event) override;

 private:
  void open(const std::string& folder);
  void open_again(const std::string& folder);
  void write(std::string_view text);
  [[nodiscard]] bool append(std::string_view text);
  void count_time(Duration taken);
  void give_up(const std::string& reason);

  Open open_;
  Clock now_;
  std::function<void(const std::string&)> trouble_;
  EventLogLimits limits_;
  std::string kept_;  // before the file is there
  Write write_;
  std::size_t written_ = 0;
  Duration slow_{};  // time that slow writes took
  bool given_up_ = false;
};

// The real file, events.jsonl. It must not be there yet, so that nothing but a regular file is
// written to: nobody reads from the other end of a pipe and holds us up.
[[nodiscard]] Result<EventLog::Write> open_event_file(const std::string& folder);

}  // namespace muster
