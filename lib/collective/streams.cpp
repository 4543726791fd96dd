// SPDX-License-Identifier: Apache-2.0
#include "collective/streams.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace muster::collective {
namespace {

constexpr std::size_t kMostPieces = 8;  // in one system call
constexpr int kBusyRounds = 24;
constexpr int kYieldRounds = 40;
constexpr int kSleepMs = 20;

}  // namespace

Streams::Streams(Mesh& mesh, std::vector<int> members)
    : mesh_(mesh), members_(std::move(members)), out_(members_.size()), in_(members_.size()) {
  self_ = static_cast<std::size_t>(std::ranges::find(members_, mesh.rank()) - members_.begin());
}

void Streams::send(std::size_t member, const void* data, std::size_t bytes) {
  if (bytes > 0) {
    // Never written through: iovec knows no const.
    out_[member].pieces.push_back({const_cast<char*>(static_cast<const char*>(data)), bytes});
    out_[member].queued += bytes;
  }
}

void Streams::receive(std::size_t member, void* data, std::size_t bytes) {
  if (bytes > 0) {
    in_[member].pieces.push_back({static_cast<char*>(data), bytes});
    in_[member].queued += bytes;
  }
}

std::int64_t Streams::move(int fd, Way& way, bool out) {
  std::array<iovec, kMostPieces> parts{};
  std::size_t count = 0;
  for (const Piece& piece : way.pieces) {
    if (count == kMostPieces) {
      break;
    }
    parts[count++] = {piece.data, piece.bytes};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t done = out ? ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
                           : ::recvmsg(fd, &message, MSG_DONTWAIT);
  if (done < 0) {
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
  }
  auto left = static_cast<std::size_t>(done);
  way.moved += left;
  while (left > 0) {
    Piece& first = way.pieces.front();
    const std::size_t part = std::min(left, first.bytes);
    first.data += part;
    first.bytes -= part;
    left -= part;
    if (first.bytes == 0) {
      way.pieces.pop_front();
    }
  }
  return done == 0 && !out ? -1 : done;
}

Result<bool> Streams::pump(const Request& request) {
  bool moved = false;
  for (std::size_t step = 1; step < members_.size(); ++step) {
    const std::size_t i = (self_ + step) % members_.size();
    const int fd = mesh_.fd(members_[i], Lane::data);
    for (const bool out : {true, false}) {
      Way& way = out ? out_[i] : in_[i];
      const std::int64_t done = way.pieces.empty() ? 0 : move(fd, way, out);
      if (done < 0) {
        return std::unexpected(mesh_.closed(request, members_[i]));
      }
      moved = moved || done > 0;
    }
  }
  return moved;
}

std::optional<Error> Streams::wait(const Request& request, int round) {
  int missing = -1;
  std::vector<pollfd> watched;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    short events = 0;
    events = static_cast<short>(events | (in_[i].pieces.empty() ? 0 : POLLIN));
    events = static_cast<short>(events | (out_[i].pieces.empty() ? 0 : POLLOUT));
    if (events != 0) {
      watched.push_back({mesh_.fd(members_[i], Lane::data), events, 0});
      watched.push_back({mesh_.fd(members_[i], Lane::control), POLLIN, 0});
      missing = missing < 0 ? members_[i] : missing;
    }
  }
  if (auto error = mesh_.look(request, missing)) {
    return error;
  }
  if (round >= kBusyRounds && round < kBusyRounds + kYieldRounds) {
    ::sched_yield();
  } else if (round >= kBusyRounds) {
    static_cast<void>(::poll(watched.data(), watched.size(), kSleepMs));
  }
  return std::nullopt;
}

Result<void> Streams::drain(const Request& request) {
  return until(request, [this] {
    const auto empty = [](const Way& way) { return way.pieces.empty(); };
    return std::ranges::all_of(out_, empty) && std::ranges::all_of(in_, empty);
  });
}

}  // namespace muster::collective
