// SPDX-License-Identifier: Apache-2.0
#include "process/output/output_source.hpp"

#include "process/values/process_runner.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace muster {

void SharedFile::flush() {
  std::string_view rest = buffer;
  while (!rest.empty()) {
    const auto count = ::write(fd.get(), rest.data(), rest.size());
    if (count <= 0 && errno != EINTR) {
      why = why == 0 ? errno : why;  // usually the disk is full
      lost_lines += static_cast<std::uint64_t>(std::ranges::count(rest, '\n'));
      break;
    }
    rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  buffer.clear();
}

void TailKeeper::add(std::string_view bytes) {
  if (bytes.size() > kStderrTailBytesMax) {
    bytes.remove_prefix(bytes.size() - kStderrTailBytesMax);
    kept_.clear();
    cut_ = true;
  }
  kept_.append(bytes);
  if (kept_.size() > 2 * kStderrTailBytesMax) {
    kept_.erase(0, kept_.size() - kStderrTailBytesMax);
    cut_ = true;
  }
}

std::string TailKeeper::lines() const {
  const bool too_long = kept_.size() > kStderrTailBytesMax;
  std::string_view tail = kept_;
  if (too_long) {
    tail.remove_prefix(tail.size() - kStderrTailBytesMax);
  }
  if (const auto newline = tail.find('\n'); (too_long || cut_) && newline + 1 < tail.size()) {
    tail.remove_prefix(newline + 1);  // npos + 1 is 0, so a single overlong line stays unchanged
  }
  return std::string(tail);
}

// Folded lines get their labels from the folder.
OutputSource::OutputSource(Setup setup)
    : setup_(std::move(setup)),
      lines_({.prefix = setup_.fold == nullptr ? setup_.style.prefix : "",
              .filters = setup_.style.filters,
              .terminal = setup_.style.terminal}),
      filtered_lines_(setup_.filtered_style) {}

void OutputSource::set_pid(int pid) {
  lines_.set_pid(pid);
  filtered_lines_.set_pid(pid);
  if (setup_.fold != nullptr && !std::exchange(is_folding_, true)) {
    setup_.style.set_pid(pid);
    setup_.fold->open(setup_.local_rank, setup_.rank, setup_.style.prefix);
  }
}

std::string& OutputSource::target() const {
  return setup_.fold != nullptr ? setup_.fold->buffer() : sink().buffer();
}

long OutputSource::read(char* buffer, std::size_t limit) {
  return setup_.file != nullptr ? setup_.file->read(buffer, limit) : ::read(fd(), buffer, limit);
}

void OutputSource::hide() {
  hidden_ = true;
  sink().note_unshown(lines_.drop_partial());
}

void OutputSource::take(std::string_view bytes) {
  taken_ += bytes.size();
  if (setup_.keeps_tail) {
    tail_.add(bytes);
  }
  if (!setup_.is_shown) {
    return;
  }
  if (hidden_) {
    sink().note_unshown(bytes.size());
  } else if (raw_) {
    sink().buffer().append(bytes);
  } else {
    lines_.feed(bytes, target());
  }
  if (setup_.filtered != nullptr) {
    filtered_lines_.feed(bytes, setup_.filtered->buffer);
  }
  flush();
}

void OutputSource::drained() {
  if (!raw_) {
    lines_.progress(target());
    if (setup_.prompts && setup_.is_shown) {
      lines_.prompt(target());
    }
    flush_sink();
  }
}

void OutputSource::finish() {
  lines_.finish(target());
  if (setup_.filtered != nullptr) {
    filtered_lines_.finish(setup_.filtered->buffer);
  }
  flush();
  if (std::exchange(is_folding_, false)) {
    setup_.fold->close(setup_.local_rank);
  }
}

void OutputSource::flush_sink() {
  if (setup_.fold != nullptr) {
    setup_.fold->take(setup_.local_rank, continues_);
  } else {
    sink().flush();
  }
}

void OutputSource::flush() {
  flush_sink();
  if (setup_.filtered != nullptr) {
    setup_.filtered->flush();
  }
}

std::size_t OutputSource::available() const {
  if (setup_.file != nullptr) {
    return setup_.file->available();
  }
  int count = 0;
  ::ioctl(fd(), FIONREAD, &count);
  return static_cast<std::size_t>(std::max(count, 0));
}

Result<UniqueFd> open_output_file(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOCTTY;
  UniqueFd fd(::open(path.c_str(), kFlags, 0666));
  if (!fd && errno == EMFILE) {
    return std::unexpected(system_error("cannot write '" + path + "'", errno));
  }
  if (!fd && errno == ENOENT) {
    std::error_code ignored;  // the second open reports the error
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    fd = UniqueFd(::open(path.c_str(), kFlags, 0666));
  }
  if (!fd) {
    return failure(Errc::not_possible, "cannot write '" + path + "': " + errno_text(errno));
  }
  return fd;
}

std::string tail_of(WorkerFile& file) {
  TailKeeper tail;
  tail.add(file.last_bytes(kStderrTailBytesMax + 1));  // the extra byte reveals truncation
  return tail.lines();
}

}  // namespace muster
