// SPDX-License-Identifier: Apache-2.0
// TorchRecorders: asks PyTorch's flight recorders of running processes for a dump. A thread beside
// the one that hangs listens at a named pipe and writes the dump into a file: NCCL's own thread,
// where TORCH_NCCL_DEBUG_INFO_PIPE_FILE is set, and for gloo that of muster.torch_flights. Who has
// not answered in time is left out. Lives on the loop's thread; resource.
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
// NCCL's thread looks at its pipe once a second. Its first dump names the functions of all recorded
// stacks, which took 4 s with PyTorch 2.11 on an H200.
inline constexpr Duration kNcclDumpTimeout = std::chrono::seconds(10);
inline constexpr std::size_t kTorchDumpsMax = 256;  // of one inspection

class TorchRecorders {
 public:
  using Done = std::function<void()>;

  explicit TorchRecorders(asio::io_context& loop) : loop_(loop), events_(loop), timer_(loop) {}

  // Of all processes of the ranks. `done` is called later and once.
  void ask(const std::vector<RankEvidence>& ranks, Done done);

  // Ranks that log lines when they answer the last question.
  [[nodiscard]] const std::set<int>& loud() const { return loud_; }

  // Gives the ranks what has come.
  void add_positions(std::vector<RankEvidence>& ranks) const;

  // What could not be had.
  [[nodiscard]] std::vector<std::string> gaps() const;

  // Nothing is called any more.
  void cancel();

 private:
  struct Question {
    int rank = 0;
    std::string backend;
    std::string pipe;
    std::string dump;
    bool ours = false;  // nobody else wants the dump
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
  asio::posix::stream_descriptor events_;  // of inotify
  asio::steady_timer timer_;
  std::map<std::string, int> watches_;                    // by folder
  std::map<std::pair<int, std::string>, Question> open_;  // by watch and name of the dump
  std::map<int, std::vector<Position>> positions_;        // by rank
  std::set<std::string> gaps_;
  std::set<int> loud_;
  Done done_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // callbacks of before are passed over
};

}  // namespace muster::hang
