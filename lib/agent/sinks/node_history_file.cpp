// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/node_history_file.hpp"

#include "agent/failures/node_history.hpp"
#include "agent/workers/files.hpp"
#include "base/fd.hpp"
#include "base/plural.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

// Other programs may write to the file, too.
constexpr std::size_t kHistoryReadMax = 4 * kHistoryBytesMax;

struct HistoryText {
  std::string text;
  bool exists = false;
};

Result<HistoryText> read_history(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    return errno == ENOENT ? Result<HistoryText>(HistoryText{})
                           : std::unexpected(system_error("cannot read '" + path + "'", errno));
  }

  struct stat facts {};

  if (::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return failure(Errc::usage, "cannot read '" + path + "': not a regular file");
  }
  return HistoryText{read_some(path, kHistoryReadMax), true};
}

// One write with O_APPEND, so that lines of several jobs are not mixed.
Result<void> append_line(const std::string& path, const std::string& line) {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!fd || ::write(fd.get(), line.data(), line.size()) != std::ssize(line)) {
    return std::unexpected(system_error("cannot write '" + path + "'", errno));
  }
  return {};
}

// A reader sees the old file or the new one. An entry that another job appends at the same moment
// may be lost.
Result<void> shorten(const std::string& path) {
  const std::string text = read_some(path, kHistoryReadMax);
  if (text.size() <= kHistoryBytesMax) {
    return {};
  }
  const std::string next = fmt::format("{}.{}.tmp", path, ::getpid());
  if (auto written = write_file(next, newest_half(text)); !written) {
    return written;
  }
  if (::rename(next.c_str(), path.c_str()) != 0) {
    const int why = errno;
    ::unlink(next.c_str());
    return std::unexpected(system_error("cannot replace '" + path + "'", why));
  }
  return {};
}

}  // namespace

void NodeHistoryFile::take(const JobEvent& event) {
  const auto* suspect = std::get_if<SuspectedNode>(&event.what);
  const std::string& path = setup_.config.node_history;
  if (suspect == nullptr || path.empty()) {
    return;
  }
  auto done = append_line(
      path, history_line({event.unix_time, suspect->node, setup_.config.rdzv_id, suspect->cause}));
  if (done) {
    done = shorten(path);
  }
  if (!done) {
    warn(done.error().message + "; continuing without it");
  }
}

Duration NodeHistoryFile::reserve_here(double unix_now) {
  const std::string& path = setup_.config.node_history;
  if (path.empty()) {
    return {};
  }
  const auto read = read_history(path);
  if (!read) {
    warn(read.error().message + "; continuing without it");
    return {};
  }
  const NodeHistory history = parse_history(read->text);
  if (history.unreadable > 0) {
    warn(fmt::format(
        "ignoring {} without an entry in '{}'", counted(history.unreadable, "line"), path));
  }
  const auto found = entries_of(history, setup_.hostname, unix_now);
  if (found.empty()) {
    return {};
  }
  const HistoryEntry& last = found.back();
  events_.say(LogLevel::warning,
              fmt::format("this node is a last resort: '{}' lists it {} (last run: {}, cause: {})",
                          path,
                          counted(found.size(), "time"),
                          last.run,
                          last.cause));
  const double left = std::min(kHistorySeconds, last.unix_time + kHistorySeconds - unix_now);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(left));
}

void NodeHistoryFile::warn(const std::string& text) {
  if (!std::exchange(has_warned_, true)) {
    events_.say(LogLevel::warning, "--node-history: " + text);
  }
}

}  // namespace muster
