// SPDX-License-Identifier: Apache-2.0
// StackCollector: runs stack dumpers on the processes of some ranks: py-spy for Python, then
// eu-stack if more is needed. It runs a few at a time, with limits on time and output size.
// Processes without a result are omitted. Runs on the loop's thread; resource.
#pragma once

#include "hang/evidence.hpp"
#include "process/start/helper_process.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster::hang {

inline constexpr std::size_t kStacksAtOnce = 16;
inline constexpr std::size_t kStacksMax = 256;  // processes per inspection
inline constexpr Duration kPySpyTimeout = std::chrono::seconds(5);
inline constexpr Duration kEuStackTimeout = std::chrono::seconds(20);
inline constexpr std::size_t kDumpBytesMax = std::size_t{4} << 20;

class StackCollector {
 public:
  using Done = std::function<void()>;

  StackCollector(asio::io_context& loop, std::string py_spy, std::vector<std::string> environment)
      : loop_(loop), py_spy_(std::move(py_spy)), environment_(std::move(environment)) {}

  // Adds stacks to the processes of `ranks`. Calls `done` once, asynchronously; `ranks` must not
  // move until then.
  void collect(std::vector<RankEvidence>& ranks, Done done);

  // Messages about missing stacks, with advice on how to get them.
  [[nodiscard]] std::vector<std::string> gaps() const;

  // Kills the stack dumpers without calling the callback.
  void cancel();

 private:
  struct Task {
    ProcessFacts* process;
    bool python;
  };

  void next();
  void start(const Task& task);
  void finished(std::size_t id, const Task& task, const std::string& output);
  void begin_native();

  asio::io_context& loop_;
  std::string py_spy_;
  std::vector<std::string> environment_;
  std::vector<RankEvidence>* ranks_ = nullptr;
  std::deque<Task> waiting_;
  std::map<std::size_t, std::unique_ptr<HelperProcess>> running_;
  std::size_t last_id_ = 0;
  bool native_ = false;
  std::set<std::string> gaps_;
  Done done_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // stale callbacks are ignored
};

}  // namespace muster::hang
