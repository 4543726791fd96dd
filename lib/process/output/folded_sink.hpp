// SPDX-License-Identifier: Apache-2.0
// FoldedSink: shows the labelled lines of all workers on one console, folded by a LineFolder
// (--fold). Its timer shows each line in time. Owned by OutputPump; resource; lives on the loop's
// thread.
#pragma once

#include "process/loop/interval_timer.hpp"
#include "process/output/console_sink.hpp"
#include "process/output/line_folder.hpp"

#include <string>
#include <utility>

namespace muster {

class FoldedSink final : public Watcher {
 public:
  // Both must outlive this object.
  FoldedSink(Poller& poller, ConsoleSink& sink, bool colours);
  ~FoldedSink() override;
  FoldedSink(const FoldedSink&) = delete;
  FoldedSink& operator=(const FoldedSink&) = delete;

  // See LineFolder.
  void open(int local_rank, int rank, std::string label) {
    folder_.open(local_rank, rank, std::move(label));
  }

  void close(int local_rank) { folder_.close(local_rank); }

  // Append a worker's unlabelled output here, then call take().
  [[nodiscard]] std::string& buffer() { return buffer_; }

  // Takes the output in the buffer. `continues` belongs to the stream: the stream's last output was
  // the beginning of a line, such as a prompt.
  void take(int local_rank, bool& continues);

  // Shows all held lines.
  void show_all();

  void on_ready() override;

 private:
  void pass_piece(int local_rank, std::string_view piece, bool& continues);

  ConsoleSink& sink_;
  LineFolder folder_;
  IntervalTimer timer_;
  std::string buffer_;
};

}  // namespace muster
