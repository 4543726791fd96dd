// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/kineto_daemon.hpp"

#include "agent/workers/kineto_messages.hpp"
#include "base/clock.hpp"
#include "process/tree/descendants.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr const char* kSocket = "dynolog";  // Kineto's name for its daemon

// The limit of one wake-up, so that a flood of datagrams does not stop the loop.
constexpr int kMessagesMax = 64;

// Kineto appends 53 bytes to the folder's name, and a socket's name has at most 107 bytes.
constexpr std::size_t kFolderBytesMax = 54;

// A recording that should begin earlier than this is too late: the process prepares it for a second
// or two.
constexpr std::int64_t kAheadMs = 2500;

std::string folder_pattern(const std::string& tmpdir) {
  constexpr std::string_view kPattern = "/muster-kineto-XXXXXX";  // of mkdtemp
  const bool fits = !tmpdir.empty() && tmpdir.size() + kPattern.size() <= kFolderBytesMax;
  return std::string(fits ? tmpdir : "/tmp").append(kPattern);
}

// The name of the socket must begin with the folder's name as the processes know it.
Result<UniqueFd> bind_in(const std::string& folder) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  fmt::format("{}/{}", folder, kSocket).copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return std::unexpected(system_error("cannot create a socket in " + folder, errno));
  }
  return fd;
}

struct Datagram {
  std::vector<char> bytes = std::vector<char>(kKinetoBytesMax);
  sockaddr_un from{};
  socklen_t from_size = 0;
  std::optional<ucred> sender{};  // as the kernel reports it
};

// Returns false if no datagram is available.
bool receive_datagram(int fd, Datagram& out) {
  iovec part{out.bytes.data(), out.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_name = &out.from;
  message.msg_namelen = sizeof(out.from);
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t count = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (count < 0) {
    return false;
  }
  out.bytes.resize(static_cast<std::size_t>(count));
  out.from_size = message.msg_namelen;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_CREDENTIALS) {
      std::memcpy(&out.sender.emplace(), CMSG_DATA(at), sizeof(ucred));
    }
  }
  return true;
}

std::string registered_answer() {
  const std::int32_t processes = 1;
  return std::string(reinterpret_cast<const char*>(&processes), sizeof(processes));
}

}  // namespace

Result<std::string> KinetoDaemon::open(const std::string& tmpdir) {
  close();
  std::string folder = folder_pattern(tmpdir);
  if (::mkdtemp(folder.data()) == nullptr) {
    return std::unexpected(system_error("cannot create " + folder, errno));
  }
  folder_ = folder;
  auto fd = bind_in(folder_);
  if (!fd) {
    close();
    return std::unexpected(fd.error());
  }
  socket_.assign(fd->release());
  listen();
  return folder_;
}

void KinetoDaemon::close() {
  std::error_code ignored;
  socket_.close(ignored);
  askers_.clear();
  wanted_.clear();
  if (!folder_.empty()) {
    std::filesystem::remove_all(std::exchange(folder_, {}), ignored);
  }
}

void KinetoDaemon::take(const JobEvent& event) {
  if (const auto* started = std::get_if<event::WorkerStarted>(&event.what)) {
    workers_[started->pid] = {started->rank, steady_now()};
  } else if (const auto* ended = std::get_if<event::WorkerEnded>(&event.what)) {
    if (const auto worker = workers_.extract(ended->exit.pid)) {
      askers_.erase(worker.mapped().rank);
      wanted_.erase(worker.mapped().rank);
    }
  }
}

std::string KinetoDaemon::request(const ProfileRequest& request) {
  const TimePoint now = steady_now();
  const auto worker = std::ranges::find_if(
      workers_, [&](const auto& entry) { return entry.second.rank == request.rank; });
  const auto asker = askers_.find(request.rank);
  const bool has_asked = asker != askers_.end() && now - asker->second.asked < kKinetoSilence;
  const bool may_ask =
      !folder_.empty() && worker != workers_.end() && now - worker->second.started < kKinetoSilence;
  if (!has_asked && !may_ask) {
    return "PyTorch's profiler does not respond (it needs KINETO_USE_DAEMON=1 when the job starts, "
           "and no --warm)";
  }
  const auto queued = wanted_.find(request.rank);
  if (queued != wanted_.end() && now - queued->second.since < kKinetoSilence) {
    return "another musterctl profile has just requested a trace of the rank";
  }
  wanted_[request.rank] = {request, now};
  return {};
}

void KinetoDaemon::listen() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
    if (error) {
      return;
    }
    for (int i = 0; i < kMessagesMax && receive(); ++i) {
    }
    listen();
  });
}

// Answers one datagram. Returns false if no datagram was available.
bool KinetoDaemon::receive() {
  Datagram datagram;
  if (!receive_datagram(socket_.native_handle(), datagram)) {
    return false;
  }
  const auto message = decode_kineto({datagram.bytes.data(), datagram.bytes.size()});
  if (!message || !datagram.sender || datagram.sender->uid != ::geteuid()) {
    return true;
  }
  KinetoMessage answer{message->type, {}};
  auto wanted = wanted_.end();
  if (message->type == kKinetoContext) {
    answer.data = registered_answer();
  } else if (message->type == kKinetoRequest) {
    wanted = wanted_from(datagram.sender->pid);
    answer.data = wanted == wanted_.end() ? "" : kineto_configuration(wanted->second.request);
  } else {
    return true;
  }
  const std::string bytes = encode_kineto(answer);
  const ssize_t sent = ::sendto(socket_.native_handle(),
                                bytes.data(),
                                bytes.size(),
                                MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&datagram.from),
                                datagram.from_size);
  if (sent > 0 && wanted != wanted_.end()) {
    wanted_.erase(wanted);  // otherwise, the process asks again
  }
  return true;
}

// The request that this process should receive now; else the end.
std::map<int, KinetoDaemon::Wanted>::iterator KinetoDaemon::wanted_from(pid_t pid) {
  const auto rank = rank_recorded_by(pid);
  const auto found = rank ? wanted_.find(*rank) : wanted_.end();
  if (found == wanted_.end()) {
    return found;
  }
  if (steady_now() - found->second.since > kKinetoSilence) {
    wanted_.erase(found);
    return wanted_.end();
  }
  ProfileRequest& request = found->second.request;
  if (request.start > 0) {
    const auto now = static_cast<std::int64_t>(wall_now_seconds() * 1000);
    request.start = std::max(request.start, now + kAheadMs);
  }
  return found;
}

// Nullopt if another process polls for the rank: the one that is nearest to the worker.
std::optional<int> KinetoDaemon::rank_recorded_by(pid_t pid) {
  const auto worker = nearest_ancestor(pid, [this](pid_t at) { return workers_.contains(at); });
  if (!worker) {
    return std::nullopt;
  }
  const int rank = workers_.at(worker->pid).rank;
  Asker& asker = askers_[rank];
  const bool is_free = asker.pid == 0 || steady_now() - asker.asked > kKinetoSilence;
  if (asker.pid != pid && !is_free && asker.distance <= worker->distance) {
    return std::nullopt;
  }
  asker = {pid, worker->distance, steady_now()};
  return rank;
}

}  // namespace muster
