// SPDX-License-Identifier: Apache-2.0
// TimerWatch: implements TORCHELASTIC_ENABLE_FILE_TIMER. Reads the requests of PyTorch's
// FileTimerClient from a named pipe, and kills workers whose timer has expired. It is an event
// sink, so that it is notified when workers start, exit and are stopped. Owned by the agent; one
// thread.
#pragma once

#include "agent/events/event_stream.hpp"
#include "agent/watch/file_timers.hpp"
#include "agent/workers/run_folder.hpp"
#include "process/run/linux_runner.hpp"

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <map>
#include <string>

#include <sys/types.h>

namespace muster {

class TimerWatch final : public EventSink {
 public:
  TimerWatch(asio::io_context& loop,
             LinuxRunner& runner,
             EventStream& events,
             const AgentRunFolder& folder)
      : runner_(runner), events_(events), folder_(folder), pipe_(loop), alarm_(loop) {}

  // EventSink
  void take(const JobEvent& event) override;

  // Adds the expired timer to the failure of a worker that was killed for it.
  void add_evidence(WorkerFailure& failure) const;

 private:
  struct Worker {
    int local_rank = 0;
    int rank = 0;
  };

  void begin_round();
  void read();
  void take_bytes(std::string_view bytes);
  void set_alarm();
  void check();
  void expire(const FileTimer& timer);
  [[nodiscard]] pid_t worker_of(pid_t pid) const;

  LinuxRunner& runner_;
  EventStream& events_;
  const AgentRunFolder& folder_;
  asio::posix::stream_descriptor pipe_;
  asio::steady_timer alarm_;
  FileTimers timers_;
  std::map<pid_t, Worker> workers_;     // running workers by pid
  std::map<int, std::string> expired_;  // by local rank: the timer for which the worker was killed
  std::array<char, 4096> buffer_{};
  bool has_warned_ = false;  // about dropped requests
};

}  // namespace muster
