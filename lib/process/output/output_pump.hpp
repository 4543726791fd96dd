// SPDX-License-Identifier: Apache-2.0
// OutputPump: forwards the output of one attempt's workers to our console and the filtered files.
// Pipes are read when they have data. Files are followed: the file serves as the buffer, so a slow
// console never blocks a worker that writes to a file. If the console is full, reading pauses for
// all streams that go to it. Owned by LinuxRunner; lives on the loop's thread.
#pragma once

#include "base/fd.hpp"
#include "process/loop/poller.hpp"
#include "process/output/console.hpp"
#include "process/output/file_follower.hpp"
#include "process/output/folded_sink.hpp"
#include "process/output/log_space.hpp"
#include "process/output/output_source.hpp"
#include "process/output/worker_file.hpp"
#include "process/values/process_spec.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/types.h>

namespace muster {

class OutputPump {
 public:
  OutputPump(Poller& poller, Console& console, bool colours);
  ~OutputPump();
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  // The descriptor to use as the worker's `stream` (1 or 2); -1 if the worker inherits our stream.
  // Open stream 1 before stream 2.
  [[nodiscard]] Result<int> open_stream(int local_rank, int stream, const OutputPlan& plan);

  // Closes our copies of the worker's descriptors. Call after the worker has been started, or with
  // pid 0 if it could not be started.
  void close_child_side(int local_rank, pid_t pid);

  // Forwards the rest of a dead worker's output, as far as the console accepts it, and forgets the
  // worker. Its replacement opens new streams.
  void close_streams(int local_rank);

  // A descriptor for a worker's standard input that is always at end of file.
  [[nodiscard]] Result<int> empty_input();

  // Reads a chunk from each followed file that has more data. True if any file still has more.
  bool turn();

  [[nodiscard]] std::string stderr_tail(int local_rank);

  // The number of bytes that the worker has written to streams that we can read; none if all its
  // output is inherited.
  [[nodiscard]] std::optional<std::uint64_t> output_bytes(int local_rank) const;

  // Bytes read from all workers in all attempts so far.
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

  // Forwards all available data, then the unfinished lines; closes all sources. Drops output that
  // the console does not accept before `wait` expires.
  void finish(ConsoleWait& wait);

 private:
  [[nodiscard]] int scarce_from() const;
  [[nodiscard]] Result<int> let_through(int local_rank);
  [[nodiscard]] Result<int> capture(OutputSource::Setup setup);
  [[nodiscard]] Result<int> join_output(int local_rank);
  [[nodiscard]] Result<int> write_file(OutputSource::Setup setup, const OutputPlan& plan);
  [[nodiscard]] Result<SharedFile*> filtered_file(const std::string& path);
  [[nodiscard]] OutputSource::Setup setup_for(int local_rank, int stream, const OutputPlan& plan);
  [[nodiscard]] FoldedSink& folded(ConsoleSink& sink);
  void add(OutputSource::Setup setup);
  [[nodiscard]] long read_chunk(OutputSource& source, std::size_t limit);
  void read_pipe(OutputSource& source);
  [[nodiscard]] bool read_file(OutputSource& source);
  void note_lost(OutputSource& source);
  void tell_lost();
  void tell_unfiltered();
  void tell_full(const std::string& folder, int why);
  void resume_paused();
  [[nodiscard]] Result<int> null_fd();
  void drain(OutputSource& source, ConsoleWait& wait);
  void show_folded();
  void close(OutputSource& source, ConsoleWait& wait);
  void skip(OutputSource& source, std::size_t bytes);
  [[nodiscard]] OutputSource* captured(int local_rank, int stream);
  [[nodiscard]] OutputSource* kept_stderr(int local_rank);
  void decide_who_is_alone();

  Poller& poller_;
  Console& console_;
  bool colours_;
  bool alone_decided_ = false;
  bool reported_scarce_ = false;
  std::uint64_t bytes_read_ = 0;
  rlim_t descriptors_ = 0;  // our descriptor limit
  UniqueFd null_;
  UniqueFd empty_input_;
  std::unique_ptr<char[]> chunk_;  // kChunkBytes; not zeroed, so that only used pages are touched
  std::vector<UniqueFd> child_fds_;
  std::map<std::string, SharedFile> filtered_;
  std::map<ConsoleSink*, FoldedSink> folds_;
  std::vector<std::unique_ptr<OutputSource>> sources_;
  FileFollower follower_;
  LogSpace log_space_;
  std::set<OutputSource*> paused_;    // pipes that wait for room on the console
  std::set<OutputSource*> busy_;      // files that may have more data
  std::map<int, std::string> tails_;  // last lines of finished captures, by local rank
  std::map<std::pair<int, int>, std::shared_ptr<WorkerFile>> files_;  // by local rank and stream
  std::uint64_t lost_bytes_ = 0;  // truncated before they were read, not yet reported
  std::string lost_file_;         // the file that was truncated last
};

}  // namespace muster
