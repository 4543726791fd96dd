// SPDX-License-Identifier: Apache-2.0
// EventLog: the sink that writes events.jsonl into the log directory that the user specified.
// Buffers events until the directory exists. A write failure (disk full) or a disk that blocks the
// launcher is reported once; logging then stops, and the job continues. Owned by the agent;
// resource.
#pragma once

#include "agent/events/event_stream.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace muster {

// Size limit of the file. Without it, the messages of a job that runs for a year could fill the
// disk.
inline constexpr std::size_t kEventLogBytesMax = std::size_t{64} << 20;

// A write that takes longer than kSlowEventWrite is slow. Once slow writes have blocked the
// launcher for kSlowEventWritesMax in total, logging stops, because the job is more important.
inline constexpr Duration kSlowEventWrite = std::chrono::milliseconds(100);
inline constexpr Duration kSlowEventWritesMax = std::chrono::seconds(1);

// Size limit of the buffer before the directory exists, because nodes may wait for each other for
// days.
inline constexpr std::size_t kEventsKeptBytesMax = std::size_t{1} << 20;

struct EventLogLimits {
  std::size_t file_bytes = kEventLogBytesMax;
  std::size_t kept_bytes = kEventsKeptBytesMax;
};

class EventLog final : public EventSink {
 public:
  // Appends bytes and returns their number, or -1 with errno set, like ::write.
  using Write = std::function<ssize_t(std::string_view)>;
  // Creates the file in this directory unless it exists. Returns a function that writes to it.
  using Open = std::function<Result<Write>(const std::string& folder)>;

  using Clock = std::function<TimePoint()>;

  // Calls `trouble` at most once, with the reason why logging stops.
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
  std::string kept_;  // events emitted before the file exists
  Write write_;
  std::size_t written_ = 0;
  Duration slow_{};  // total time of slow writes
  bool given_up_ = false;
};

// Creates the real file, events.jsonl. Fails if the path exists, so that muster writes only to a
// regular file and never blocks on a pipe without a reader.
[[nodiscard]] Result<EventLog::Write> open_event_file(const std::string& folder);

}  // namespace muster
