// SPDX-License-Identifier: Apache-2.0
// HangWatch: performs the I/O for HangCore. Checks the workers of this node when due, gathers
// evidence when they make no progress, and reports the verdict to its site. It never blocks: stacks
// come from child processes with time limits. The agent owns it if --hang-timeout is on. Runs on
// the loop's thread. Resource.
#pragma once

#include "base/time.hpp"
#include "hang/answer_output.hpp"
#include "hang/evidence.hpp"
#include "hang/gather/inspection.hpp"
#include "hang/hang_core.hpp"
#include "hang/report/verdict_text.hpp"

#include <asio/steady_timer.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {
class LinuxRunner;
}

namespace muster::hang {

struct HangWatchSettings {
  HangSettings core;
  std::string py_spy = "py-spy";         // path of py-spy, or a name to look up in PATH
  std::vector<std::string> environment;  // environment of the stack dumpers
  // Multi-node: starts an inspection on all nodes, so that look() and told() will be called. Unset
  // if this node judges alone.
  std::function<void()> ask_others{};
};

struct HangReport {
  Verdict verdict;
  VerdictFacts facts;
  Evidence evidence;
  std::optional<int> kills{};  // the rank that --on-hang kills; -1 for any rank
  std::string told_by{};       // the node that prints the verdict; empty if this node prints it
};

class HangSite {
 public:
  virtual ~HangSite() = default;
  virtual void found(HangReport report) = 0;
  virtual void goes_on(Duration quiet) = 0;
  virtual void sees_nothing() = 0;
  // The last step that each worker reported, by local rank. Unset if the worker has reported none.
  [[nodiscard]] virtual std::vector<std::optional<std::uint64_t>> steps() = 0;
  // The ranks to which a debugger is attached, or that wait for one.
  [[nodiscard]] virtual std::set<int> debugged() = 0;
};

struct WatchedWorker {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  bool ended = false;
};

class HangWatch {
 public:
  HangWatch(asio::io_context& loop,
            LinuxRunner& runner,
            HangWatchSettings settings,
            HangSite& site);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  // An attempt with this number of workers on this node begins.
  void expect(std::size_t workers, int world_size);
  // Watching begins when all workers of the attempt have started.
  void worker_started(const WatchedWorker& worker);
  // This worker exited successfully.
  void worker_ended(int local_rank);
  // All workers are being stopped, or are suspended until resume().
  void end();
  void resume();

  // The workers of the attempt that have started.
  [[nodiscard]] const std::vector<WatchedWorker>& workers() const { return workers_; }

  [[nodiscard]] bool all_started() const { return workers_.size() == expected_; }

  // Multi-node: inspects the workers within this time. Discards an earlier request.
  using Done = std::function<void(const Evidence&)>;
  void look(Duration within, Done done);

  // The most recent evidence.
  [[nodiscard]] const Evidence& seen() const { return evidence_; }

  // The verdict on all nodes. If unset, there is no valid verdict; check again later.
  void told(const std::optional<Verdict>& verdict);

 private:
  void arm();
  void check();
  [[nodiscard]] std::vector<Sample> samples();
  void inspect(Duration within);
  void conclude();
  void add_progress();
  void stop();
  void drop_question();

  LinuxRunner& runner_;
  HangWatchSettings settings_;
  HangSite& site_;
  HangCore core_;
  asio::steady_timer timer_;
  Inspection inspection_;
  std::vector<WatchedWorker> workers_;
  std::size_t expected_ = 0;
  int world_size_ = 0;
  Evidence evidence_;
  AnswerOutput answers_;
  Done done_;  // multi-node: the pending request
};

}  // namespace muster::hang
