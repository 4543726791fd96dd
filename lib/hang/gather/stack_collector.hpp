// SPDX-License-Identifier: Apache-2.0
// StackCollector: asks the programs that show stacks about the processes of some ranks: py-spy for
// Python, then eu-stack where that does not say enough. A few at a time, bounded in time and size;
// what does not answer is left out. Lives on the loop's thread; resource.
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
inline constexpr std::size_t kStacksMax = 256;  // processes of one inspection
inline constexpr Duration kPySpyTimeout = std::chrono::seconds(5);
inline constexpr Duration kEuStackTimeout = std::chrono::seconds(20);
inline constexpr std::size_t kDumpBytesMax = std::size_t{4} << 20;

class StackCollector {
 public:
  using Done = std::function<void()>;

  StackCollector(asio::io_context& loop, std::string py_spy, std::vector<std::string> environment)
      : loop_(loop), py_spy_(std::move(py_spy)), environment_(std::move(environment)) {}

  // Adds stacks to the processes of `ranks`, which must stay where they are until `done` is called,
  // later and once.
  void collect(std::vector<RankEvidence>& ranks, Done done);

  // What could not be had, and what to do.
  [[nodiscard]] std::vector<std::string> gaps() const;

  // Nothing is called any more.
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
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // callbacks of before are passed over
};

}  // namespace muster::hang
