// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/torch_recorders.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/plural.hpp"
#include "base/printable.hpp"
#include "hang/gather/pickle.hpp"
#include "hang/gather/torch_dump.hpp"
#include "hang/judge/collective_places.hpp"
#include "process/values/proc_file.hpp"

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster::hang {
namespace {

constexpr std::size_t kEnvironBytesMax = std::size_t{2} << 20;
constexpr double kNanoseconds = 1e9;

constexpr const char* kNccl = "nccl";

// PyTorch's variables, and our own for gloo's listener (muster_torch_flights.py).
constexpr const char* kNcclPipes = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE";
constexpr const char* kNcclDumps = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
constexpr const char* kNcclDumpsNewer = "TORCH_FR_DUMP_TEMP_FILE";
constexpr const char* kOurPlace = "MUSTER_TORCH_FLIGHTS";

std::string read_up_to(int fd, std::size_t bytes_max) {
  std::string out;
  std::array<char, 65536> piece{};
  while (out.size() < bytes_max) {
    const auto count = ::read(fd, piece.data(), piece.size());
    if (count <= 0) {
      break;
    }
    out.append(piece.data(), static_cast<std::size_t>(count));
  }
  return out;
}

// The variable's value when the process started. Empty if it was unset.
std::string variable_of(const std::string& environment, const std::string& name) {
  // The NUL prevents a match within a longer name or within a value.
  const std::string wanted = std::string(1, '\0') + name + "=";
  const auto at = environment.find(wanted);
  if (at == std::string::npos) {
    return "";
  }
  const auto begin = at + wanted.size();
  return environment.substr(begin, environment.find('\0', begin) - begin);
}

// The process's environment, with a NUL byte before each variable.
std::string environment_of(pid_t pid) {
  return std::string(1, '\0') +
         read_proc_file(fmt::format("/proc/{}/environ", pid), kEnvironBytesMax);
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string name_of_file(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Opens the write end of a named pipe, if it has a reader. Without a reader, open() fails at once
// because of O_NONBLOCK. The path is from the worker's environment, so it may be a link or a
// regular file.
UniqueFd open_pipe(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));

  struct stat facts {};

  const bool pipe = fd && ::fstat(fd.get(), &facts) == 0 && S_ISFIFO(facts.st_mode);
  return pipe ? std::move(fd) : UniqueFd();
}

bool is_own(const std::string& path) {
  struct stat facts {};

  return ::lstat(path.c_str(), &facts) == 0 && facts.st_uid == ::geteuid();
}

}  // namespace

// -- queries ----------------------------------------------------------------------------------

std::vector<TorchRecorders::Question> TorchRecorders::questions_for(
    const RankEvidence& rank) const {
  std::vector<Question> out;
  std::set<std::string> seen;
  for (const ProcessFacts& process : rank.processes) {
    const std::string environment = environment_of(process.pid);
    const std::string place = variable_of(environment, kOurPlace);
    if (!place.empty()) {
      const std::string stem = place + std::to_string(process.pid);
      out.push_back({rank.rank, "gloo", stem + ".pipe", stem, true});
    }
    const std::string pipes = variable_of(environment, kNcclPipes);
    std::string dumps = variable_of(environment, kNcclDumpsNewer);
    dumps = dumps.empty() ? variable_of(environment, kNcclDumps) : dumps;
    // NCCL's files are named by rank, and child processes inherit the variables. Each name is
    // therefore queried only once.
    if (const std::string stem = dumps + std::to_string(rank.rank);
        !pipes.empty() && !dumps.empty() && seen.insert(stem).second) {
      // muster puts the dumps of both backends into one directory. A dump elsewhere belongs to the
      // user.
      const bool ours = !place.empty() && folder_of(place) == folder_of(dumps);
      out.push_back({rank.rank, kNccl, fmt::format("{}{}.pipe", pipes, rank.rank), stem, ours});
    }
  }
  return out;
}

void TorchRecorders::ask(const std::vector<RankEvidence>& ranks, Done done) {
  done_ = std::move(done);
  positions_.clear();
  gaps_.clear();
  loud_.clear();
  for (const RankEvidence& rank : ranks) {
    if (rank.processes.empty() || rank.processes.front().state == 'T') {
      continue;  // a stopped process cannot answer
    }
    for (Question& question : questions_for(rank)) {
      put(std::move(question));
    }
  }
  if (!open_.empty()) {
    listen();
    limit();
    return;
  }
  // No query was sent, but `done` must still be called asynchronously.
  asio::post(loop_, [this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) {
      finish();
    }
  });
}

bool TorchRecorders::open_events() {
  if (events_.is_open()) {
    return true;
  }
  UniqueFd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd) {
    gaps_.insert("cannot query PyTorch's flight recorders: inotify failed: " +
                 std::string(std::strerror(errno)));
    return false;
  }
  std::error_code error;
  events_.assign(fd.get(), error);
  if (error) {
    return false;
  }
  // events_ now owns the descriptor and closes it.
  static_cast<void>(fd.release());
  return true;
}

// Start watching the directory before sending the query, because the answer may arrive at once.
void TorchRecorders::put(Question question) {
  const UniqueFd pipe = open_pipe(question.pipe);
  if (!pipe || open_.size() == kTorchDumpsMax || !open_events()) {
    return;
  }
  const std::string folder = folder_of(question.dump);
  auto watch = watches_.find(folder);
  if (watch == watches_.end()) {
    // A dump is complete when its writer closes the file or moves it into place.
    const int id = ::inotify_add_watch(
        events_.native_handle(), folder.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR);
    if (id < 0) {
      return;
    }
    watch = watches_.emplace(folder, id).first;
  }
  if (::write(pipe.get(), "1", 1) == 1) {
    const std::string name = name_of_file(question.dump);
    // PyTorch logs lines when it dumps NCCL's recorder. gloo's thread prints nothing.
    if (question.backend == kNccl) {
      loud_.insert(question.rank);
    }
    open_[{watch->second, name}] = std::move(question);
  }
}

// -- answers ----------------------------------------------------------------------------------

void TorchRecorders::listen() {
  events_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [this, alive = std::weak_ptr<int>(alive_)](const std::error_code& error) {
                       if (!error && !alive.expired()) {
                         take_events();
                       }
                     });
}

void TorchRecorders::take_events() {
  alignas(inotify_event) std::array<char, 16384> bytes{};
  const auto count = ::read(events_.native_handle(), bytes.data(), bytes.size());
  for (std::size_t at = 0; count > 0 && at < static_cast<std::size_t>(count);) {
    const auto* const event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
    at += sizeof(inotify_event) + event->len;
    // The directory may contain files that muster did not request.
    const auto found = event->len == 0 ? open_.end() : open_.find({event->wd, event->name});
    if (found != open_.end()) {
      const Question question = std::move(found->second);
      open_.erase(found);
      answered(question);
    }
  }
  if (open_.empty()) {
    finish();
  } else {
    listen();
  }
}

void TorchRecorders::answered(const Question& question) {
  const UniqueFd file(
      ::open(question.dump.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  // Reads one extra byte, so that Pickle::read() reports the file as too large instead of
  // truncated.
  const std::string bytes = file ? read_up_to(file.get(), kPickleBytesMax + 1) : "";
  // The path is from the worker's environment, so delete only files of our own user.
  if (question.ours && is_own(question.dump) && is_own(folder_of(question.dump))) {
    ::unlink(question.dump.c_str());
  }
  auto positions =
      torch_positions(bytes,
                      {.rank = question.rank,
                       .backend = question.backend,
                       .now = static_cast<std::uint64_t>(wall_now_seconds() * kNanoseconds)});
  if (!positions) {
    gaps_.insert(fmt::format("cannot read PyTorch's flight recorder ({}) of rank {}: {}",
                             question.backend,
                             question.rank,
                             positions.error().message));
    return;
  }
  std::ranges::move(*positions, std::back_inserter(positions_[question.rank]));
}

void TorchRecorders::limit() {
  timer_.expires_after(loud_.empty() ? kTorchDumpTimeout : kNcclDumpTimeout);
  timer_.async_wait([this, alive = std::weak_ptr<int>(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) {
      finish();
    }
  });
}

void TorchRecorders::finish() {
  std::set<int> silent;
  for (const auto& [where, question] : open_) {
    silent.insert(question.rank);
  }
  if (!silent.empty()) {
    gaps_.insert("no answer from PyTorch's flight recorder on " +
                 name_ranks(std::vector<int>(silent.begin(), silent.end())));
  }
  // cancel() drops done_ and the open queries, whose dumps are then ignored.
  Done call = std::exchange(done_, nullptr);
  cancel();
  if (call) {
    call();
  }
}

void TorchRecorders::add_positions(std::vector<RankEvidence>& ranks) const {
  for (RankEvidence& rank : ranks) {
    if (const auto found = positions_.find(rank.rank); found != positions_.end()) {
      rank.positions.insert(rank.positions.end(), found->second.begin(), found->second.end());
    }
  }
}

std::vector<std::string> TorchRecorders::gaps() const {
  return {gaps_.begin(), gaps_.end()};
}

void TorchRecorders::cancel() {
  alive_ = std::make_shared<int>(0);
  std::error_code ignored;
  timer_.cancel();
  events_.close(ignored);
  watches_.clear();
  open_.clear();
  done_ = nullptr;
}

}  // namespace muster::hang
