// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/socket_lanes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace muster::collective {
namespace {

constexpr std::size_t kMostPieces = 8;  // per system call
// A waiting rank first polls, then yields, and then sleeps in poll().
constexpr int kBusyRounds = 24;
constexpr int kLaneYieldRounds = 40;
constexpr int kSleepMs = 20;

}  // namespace

SocketLanes::SocketLanes(Mesh& mesh)
    : mesh_(mesh),
      out_(static_cast<std::size_t>(mesh.size())),
      in_(static_cast<std::size_t>(mesh.size())) {}

std::uint64_t SocketLanes::post(Direction& to, char* data, std::size_t bytes) {
  to.pieces.push_back({data, bytes});
  to.posted += bytes;
  return to.posted;
}

std::uint64_t SocketLanes::post_send(int rank, const void* data, std::size_t bytes) {
  // iovec has no const pointer, but nothing writes to this memory.
  char* const readable = const_cast<char*>(static_cast<const char*>(data));
  return post(out_[static_cast<std::size_t>(rank)], readable, bytes);
}

std::uint64_t SocketLanes::post_recv(int rank, void* data, std::size_t bytes) {
  return post(in_[static_cast<std::size_t>(rank)], static_cast<char*>(data), bytes);
}

std::int64_t SocketLanes::move(int fd, Direction& way, bool out) {
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
  // A receive of 0 bytes is the end of the stream; a send of 0 bytes is not.
  return done == 0 && !out ? -1 : done;
}

// Each rank starts with its successor, so that the ranks do not all send to the same rank at once.
Result<bool> SocketLanes::progress(const Step& step) {
  bool moved = false;
  for (int distance = 1; distance < size(); ++distance) {
    const int other = (rank() + distance) % size();
    // Both directions move in turn, so two ranks that send to each other cannot deadlock.
    for (const bool out : {true, false}) {
      Direction& way = (out ? out_ : in_)[static_cast<std::size_t>(other)];
      const std::int64_t done =
          way.pieces.empty() ? 0 : move(mesh_.fd(other, Lane::data), way, out);
      if (done < 0) {
        return std::unexpected(mesh_.closed(step, other));
      }
      moved = moved || done > 0;
    }
  }
  return moved;
}

std::optional<Error> SocketLanes::wait(const Step& step, int missing, int round) {
  if (auto error = mesh_.look(step, missing)) {
    return error;
  }
  if (round < kBusyRounds) {
    return std::nullopt;
  }
  if (round < kBusyRounds + kLaneYieldRounds) {
    ::sched_yield();
    return std::nullopt;
  }
  std::vector<pollfd> watched;
  for (int other = 0; other < size(); ++other) {
    const auto i = static_cast<std::size_t>(other);
    // Only lanes with posted memory are watched: data for a later post would make poll() return at
    // once.
    short events = 0;
    events = static_cast<short>(events | (in_[i].pieces.empty() ? 0 : POLLIN));
    events = static_cast<short>(events | (out_[i].pieces.empty() ? 0 : POLLOUT));
    if (events != 0) {
      // Poll the control connection too, because a rank that fails reports it there.
      watched.push_back({mesh_.fd(other, Lane::data), events, 0});
      watched.push_back({mesh_.fd(other, Lane::control), POLLIN, 0});
    }
  }
  // Use a timeout, because a death detected in this host's shared memory makes no descriptor
  // ready.
  static_cast<void>(::poll(watched.data(), watched.size(), kSleepMs));
  return std::nullopt;
}

}  // namespace muster::collective
