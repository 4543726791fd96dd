// SPDX-License-Identifier: Apache-2.0
// TraceRecorder: records traces of ranks with PyTorch's profiler or py-spy, and waits for the
// files. Blocking. Resource: kills py-spy when it is destroyed.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "process/start/helper_process.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <list>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

// py-spy counts samples and not the time, so it takes longer on a busy host.
[[nodiscard]] constexpr Duration py_spy_limit(Duration recorded) {
  return 2 * recorded + std::chrono::seconds(30);
}

struct RecordedRank {
  int rank = 0;
  pid_t pid = 0;
  std::string file{};   // the trace, if it was recorded
  std::string error{};  // why it was not
};

class TraceRecorder {
 public:
  // The folder must exist. Error: system.
  [[nodiscard]] static Result<std::unique_ptr<TraceRecorder>> in(const std::string& folder);

  // Registers the file that wait() waits for: Kineto writes rank_N_PID.json.
  void await_kineto(int rank, pid_t pid);

  // Samples a Python process for a whole number of seconds.
  void run_py_spy(int rank, pid_t pid, const std::string& py_spy, std::int64_t seconds);

  // Waits until all traces are complete, or have failed, or the limit has passed.
  [[nodiscard]] std::vector<RecordedRank> wait(Duration limit);

 private:
  struct Task {
    RecordedRank result;
    bool by_kineto = false;
    bool is_done = false;
    std::unique_ptr<HelperProcess> py_spy{};
    std::unique_ptr<asio::posix::stream_descriptor> process{};  // a pidfd
  };

  TraceRecorder(std::string folder, UniqueFd changes);

  void listen();
  void read_changes();
  void file_written(const std::string& name);
  void watch_process(Task& task);
  void end(Task& task, std::string file, std::string error);
  [[nodiscard]] std::string trace_path(const Task& task) const;
  [[nodiscard]] std::vector<int> missing() const;

  std::string folder_;
  asio::io_context loop_{1};
  asio::posix::stream_descriptor changes_;  // inotify
  asio::steady_timer progress_;
  std::list<Task> tasks_;
};

}  // namespace muster
