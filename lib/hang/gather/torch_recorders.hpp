// SPDX-License-Identifier: Apache-2.0
// TorchRecorders: requests dumps from PyTorch's flight recorders in running processes. In each
// process, a thread other than the hanging one reads a named pipe and writes the dump to a file.
// For NCCL this is NCCL's own thread, if TORCH_NCCL_DEBUG_INFO_PIPE_FILE is set; for gloo it is the
// thread of muster_torch_flights. Ranks that do not answer in time are omitted. Runs on the loop's
// thread; resource.
#pragma once

#include "base/time.hpp"
#include "hang/evidence.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace muster::hang {

inline constexpr Duration kTorchDumpTimeout = std::chrono::seconds(3);
// NCCL's thread polls its pipe once per second. Its first dump symbolizes all recorded stacks,
// which took 4 s with PyTorch 2.11 on an H200.
inline constexpr Duration kNcclDumpTimeout = std::chrono::seconds(10);
inline constexpr std::size_t kTorchDumpsMax = 256;  // dumps per inspection

class TorchRecorders {
 public:
  using Done = std::function<void()>;

  explicit TorchRecorders(asio::io_context& loop) : loop_(loop), events_(loop), timer_(loop) {}

  // Queries all processes of the ranks. Calls `done` once, asynchronously.
  void ask(const std::vector<RankEvidence>& ranks, Done done);

  // Ranks that log lines while answering the last query.
  [[nodiscard]] const std::set<int>& loud() const { return loud_; }

  // Adds the positions that have arrived to `ranks`.
  void add_positions(std::vector<RankEvidence>& ranks) const;

  // Messages about missing dumps.
  [[nodiscard]] std::vector<std::string> gaps() const;

  // Drops the open queries without calling the callback.
  void cancel();

 private:
  struct Question {
    int rank = 0;
    std::string backend;
    std::string pipe;
    std::string dump;
    bool ours = false;  // we requested this dump, so we may delete it
  };

  [[nodiscard]] std::vector<Question> questions_for(const RankEvidence& rank) const;
  [[nodiscard]] bool open_events();
  void put(Question question);
  void listen();
  void take_events();
  void answered(const Question& question);
  void limit();
  void finish();

  asio::io_context& loop_;
  asio::posix::stream_descriptor events_;  // the inotify descriptor
  asio::steady_timer timer_;
  std::map<std::string, int> watches_;                    // inotify watches by folder
  std::map<std::pair<int, std::string>, Question> open_;  // by watch and file name of the dump
  std::map<int, std::vector<Position>> positions_;        // positions by rank
  std::set<std::string> gaps_;
  std::set<int> loud_;
  Done done_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // stale callbacks are ignored
};

}  // namespace muster::hang
