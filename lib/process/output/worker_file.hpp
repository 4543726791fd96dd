// SPDX-License-Identifier: Apache-2.0
// WorkerFile: a log file that a worker writes and muster reads through a descriptor. Renaming or
// removing the path has no effect. After a truncation, reading starts again from the beginning. A
// "sparing" file closes its descriptor between reads and is reopened by its path or through the
// worker's own descriptor. Owned by OutputPump. Resource; lives on the loop's thread.
#pragma once

#include "base/fd.hpp"

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace muster {

class WorkerFile {
 public:
  // `path` is the path of the file, and `written` is the worker's descriptor for it. If our
  // descriptor is `scarce_from` or higher, the file is sparing.
  WorkerFile(std::string path, int written, int scarce_from);

  // Sets the process that has the file open as its descriptor `stream`.
  void set_writer(pid_t pid, int stream);

  // Call open() before reading and close_if_sparing() afterwards; a sparing file has an open
  // descriptor only between these calls. False if the file cannot be opened now; errno contains the
  // reason.
  [[nodiscard]] bool open();
  void close_if_sparing();

  // The descriptor to watch; -1 while closed.
  [[nodiscard]] int fd() const { return fd_.get(); }

  [[nodiscard]] const std::string& path() const { return path_; }

  // Reads the next bytes of an open file; 0 if no more data is available for now.
  [[nodiscard]] long read(char* buffer, std::size_t limit);

  // The number of bytes that can be read now.
  [[nodiscard]] std::size_t available();
  void skip(std::size_t bytes);

  // The number of bytes that the worker is known to have written. A truncation does not lower it.
  [[nodiscard]] std::uint64_t written();

  // Bytes known to have been truncated before they were read, since the last call. Data that was
  // written and truncated between two calls to this class is not detected.
  [[nodiscard]] std::uint64_t take_lost();

  // The last `bytes_max` bytes.
  [[nodiscard]] std::string last_bytes(std::size_t bytes_max);

 private:
  [[nodiscard]] UniqueFd open_same(const std::string& path) const;
  void look();
  [[nodiscard]] long read_behind_mark(char* buffer, std::size_t limit);
  void keep_mark(std::string_view bytes);
  void note_truncated(off_t size_before);

  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  pid_t writer_ = 0;
  int stream_ = 1;
  UniqueFd fd_;
  bool sparing_ = false;
  off_t offset_ = 0;  // offset of the next byte to read
  off_t size_ = 0;    // size of the file at the last check
  std::string mark_;  // up to kMarkBytes bytes before offset_; a difference means truncation
  std::uint64_t truncated_ = 0;  // sum of the file sizes just before each truncation
  std::uint64_t lost_ = 0;
};

}  // namespace muster
