// SPDX-License-Identifier: Apache-2.0
#include "trace_recorder.hpp"

#include "base/environ.hpp"
#include "base/logger.hpp"
#include "base/plural.hpp"
#include "base/text.hpp"
#include "merge_traces.hpp"
#include "process/tree/descendants.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <sys/inotify.h>
#include <unistd.h>

namespace muster {
namespace {

// After this time, people want to know what takes so long.
constexpr Duration kProgressAfter = std::chrono::seconds(10);

// py-spy prints a line for each late sample.
constexpr std::size_t kPySpyBytesMax = std::size_t{64} << 20;

constexpr std::size_t kChangesBytesMax = 16384;

constexpr const char* kExited = "the process exited before it wrote a trace";

bool is_complete(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  constexpr int kTail = 16;  // a trace may end with line breaks
  if (!in.seekg(-kTail, std::ios::end)) {
    return false;
  }
  std::string tail(kTail, ' ');
  in.read(tail.data(), kTail);
  return trim(tail).ends_with('}');
}

std::string last_line(const std::string& text) {
  const std::string whole(trim(text));
  return whole.substr(whole.rfind('\n') + 1);
}

}  // namespace

Result<std::unique_ptr<TraceRecorder>> TraceRecorder::in(const std::string& folder) {
  UniqueFd changes(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!changes ||
      ::inotify_add_watch(changes.get(), folder.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO) < 0) {
    return std::unexpected(system_error("cannot watch " + folder, errno));
  }
  return std::unique_ptr<TraceRecorder>(new TraceRecorder(folder, std::move(changes)));
}

TraceRecorder::TraceRecorder(std::string folder, UniqueFd changes)
    : folder_(std::move(folder)), changes_(loop_, changes.release()), progress_(loop_) {
  listen();
}

void TraceRecorder::await_kineto(int rank, pid_t pid) {
  Task& task = tasks_.emplace_back();
  task.result = {.rank = rank, .pid = pid};
  task.by_kineto = true;
  ::unlink(trace_path(task).c_str());  // of an earlier recording
  watch_process(task);
}

void TraceRecorder::run_py_spy(int rank,
                               pid_t pid,
                               const std::string& py_spy,
                               std::int64_t seconds) {
  Task& task = tasks_.emplace_back();
  task.result = {.rank = rank, .pid = pid};
  ::unlink(trace_path(task).c_str());  // of an earlier recording
  const HelperSpec spec{.argv = {py_spy,
                                 "record",
                                 "--pid",
                                 std::to_string(pid),
                                 "--duration",
                                 std::to_string(seconds),
                                 "--format",
                                 "speedscope",
                                 "--output",
                                 trace_path(task)},
                        .environment = Environ::from_block(::environ).to_block(),
                        .with_errors = true,
                        .timeout = py_spy_limit(std::chrono::seconds(seconds)),
                        .bytes_max = kPySpyBytesMax};
  auto child = HelperProcess::start(loop_, spec, [this, &task](const std::string& printed) {
    const std::string path = trace_path(task);
    is_complete(path) ? end(task, path, "") : end(task, "", "py-spy: " + last_line(printed));
  });
  if (child) {
    task.py_spy = std::move(*child);
  } else {
    end(task, "", child.error().message + " (pip install py-spy)");
  }
}

std::vector<RecordedRank> TraceRecorder::wait(Duration limit) {
  progress_.expires_after(kProgressAfter);
  progress_.async_wait([this, limit](std::error_code error) {
    if (!error) {
      logger().print(fmt::format("waiting for {} of {} (at most {})",
                                 agreeing(missing().size(), "the trace", "the traces"),
                                 name_ranks(missing()),
                                 describe(limit)));
    }
  });
  if (!missing().empty()) {
    loop_.restart();
    loop_.run_for(limit);
  }
  std::vector<RecordedRank> out;
  for (Task& task : tasks_) {
    if (!task.is_done) {
      task.result.error = "no trace within " + describe(limit);
    }
    out.push_back(std::move(task.result));
  }
  return out;
}

void TraceRecorder::listen() {
  changes_.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
    if (!error) {
      read_changes();
      listen();
    }
  });
}

void TraceRecorder::read_changes() {
  alignas(inotify_event) std::array<char, kChangesBytesMax> buffer{};
  const ssize_t count = ::read(changes_.native_handle(), buffer.data(), buffer.size());
  for (ssize_t at = 0; at < count;) {
    inotify_event event{};
    std::memcpy(&event, buffer.data() + at, sizeof(event));
    const char* const name = buffer.data() + at + sizeof(event);
    file_written(std::string(name, ::strnlen(name, event.len)));
    at += static_cast<ssize_t>(sizeof(event) + event.len);
  }
}

void TraceRecorder::file_written(const std::string& name) {
  for (Task& task : tasks_) {
    const std::string path = folder_ + "/" + name;
    const bool is_own =
        name.starts_with(fmt::format("rank_{}_", task.result.rank)) && name.ends_with(kTraceEnding);
    if (task.by_kineto && !task.is_done && is_own && is_complete(path)) {
      std::error_code failed;
      std::filesystem::rename(path, trace_path(task), failed);
      end(task, failed ? path : trace_path(task), "");
    }
  }
}

void TraceRecorder::watch_process(Task& task) {
  UniqueFd process = open_process(task.result.pid);
  if (!process) {
    if (errno == ESRCH) {
      end(task, "", kExited);
    }
    return;  // an old kernel: only the time limit applies
  }
  task.process = std::make_unique<asio::posix::stream_descriptor>(loop_, process.release());
  task.process->async_wait(asio::posix::stream_descriptor::wait_read,
                           [this, &task](std::error_code error) {
                             read_changes();  // the process may have written its trace
                             if (!error && !task.is_done) {
                               end(task, "", kExited);
                             }
                           });
}

void TraceRecorder::end(Task& task, std::string file, std::string error) {
  task.is_done = true;
  task.result.file = std::move(file);
  task.result.error = std::move(error);
  if (missing().empty()) {
    loop_.stop();
  }
}

std::string TraceRecorder::trace_path(const Task& task) const {
  return fmt::format(
      "{}/rank_{}{}", folder_, task.result.rank, task.by_kineto ? kTraceEnding : kSpeedscopeEnding);
}

std::vector<int> TraceRecorder::missing() const {
  std::vector<int> out;
  for (const Task& task : tasks_) {
    if (!task.is_done) {
      out.push_back(task.result.rank);
    }
  }
  return out;
}

}  // namespace muster
