// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/connection.hpp"
#include "apps/muster-bench/load.hpp"
#include "base/clock.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

namespace muster::bench {
namespace {

constexpr std::size_t kChunk = 64;  // requests per send
constexpr std::size_t kKeys = 1024;
constexpr int kChunksInTurn = 16;  // limit per turn, to be fair to other connections
constexpr int kTimeoutMs = 10'000;

struct Streamer {
  UniqueFd fd;
  std::string chunk;
  std::size_t chunks_left = 0;
  std::size_t sent = 0;     // bytes of the current chunk
  std::size_t answers = 0;  // expected answer bytes
  bool asked = false;       // the chunk contains the final request
  Exchange question;

  [[nodiscard]] bool done() const { return chunks_left == 0 && answers == 0; }
};

Result<Streamer> open_streamer(const StreamPlan& plan, std::size_t number) {
  auto fd = connect_to(plan.port);
  MUSTER_RETURN_IF_ERROR(fd);
  Streamer streamer;
  const auto sample = streamed_set(plan.protocol, 0);
  MUSTER_RETURN_IF_ERROR(converse(fd->get(), greeting(plan.protocol, sample)));
  for (std::size_t i = 0; i < kChunk; ++i) {
    streamer.chunk += streamed_set(plan.protocol, (number * kChunk + i) % kKeys).request;
  }
  streamer.chunks_left = plan.requests / kChunk;
  streamer.answers = streamer.chunks_left * kChunk * sample.reply.size();
  streamer.question = exchange(plan.protocol, Operation::get, (number * kChunk) % kKeys);
  streamer.fd = std::move(*fd);
  MUSTER_RETURN_IF_ERROR(set_nonblocking(streamer.fd.get()));
  return streamer;
}

// Advances to the next chunk. The final request comes after the last chunk.
void next_chunk(Streamer& streamer) {
  streamer.sent = 0;
  --streamer.chunks_left;
  if (streamer.chunks_left == 0 && !streamer.asked) {
    streamer.asked = true;
    streamer.chunk = streamer.question.request;
    streamer.answers += streamer.question.reply.size();
    streamer.chunks_left = 1;
  }
}

Result<void> push(Streamer& streamer) {
  for (int turns = 0; turns < kChunksInTurn && streamer.chunks_left > 0; ++turns) {
    const auto* from = streamer.chunk.data() + streamer.sent;
    const auto got =
        send(streamer.fd.get(), from, streamer.chunk.size() - streamer.sent, MSG_NOSIGNAL);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return {};
    }
    if (got < 0) {
      return std::unexpected(system_error("cannot stream to a server", errno));
    }
    streamer.sent += static_cast<std::size_t>(got);
    if (streamer.sent == streamer.chunk.size()) {
      next_chunk(streamer);
    }
  }
  return {};
}

Result<void> pull(Streamer& streamer, std::vector<char>& buffer) {
  const auto got = recv(streamer.fd.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return {};
  }
  if (got <= 0 || static_cast<std::size_t>(got) > streamer.answers) {
    return failure(Errc::closed, "a server closed a connection during a stream");
  }
  streamer.answers -= static_cast<std::size_t>(got);
  return {};
}

Result<bool> turn(std::vector<Streamer>& streamers, std::vector<char>& buffer) {
  std::vector<pollfd> waiting;
  for (const auto& streamer : streamers) {
    const int out = streamer.chunks_left > 0 ? POLLOUT : 0;
    waiting.push_back(
        {streamer.done() ? -1 : streamer.fd.get(), static_cast<short>(POLLIN | out), 0});
  }
  if (poll(waiting.data(), waiting.size(), kTimeoutMs) == 0) {
    return failure(Errc::timed_out, "a server stopped reading a stream");
  }
  for (std::size_t i = 0; i < streamers.size(); ++i) {
    Result<void> moved{};
    if ((waiting[i].revents & POLLOUT) != 0) {
      moved = push(streamers[i]);
    }
    if (moved && (waiting[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      moved = pull(streamers[i], buffer);
    }
    MUSTER_RETURN_IF_ERROR(moved);
  }
  return std::ranges::all_of(streamers, &Streamer::done);
}

}  // namespace

Result<double> measure_stream(const StreamPlan& plan) {
  std::vector<Streamer> streamers;
  for (std::size_t number = 0; number < plan.clients; ++number) {
    auto streamer = open_streamer(plan, number);
    MUSTER_RETURN_IF_ERROR(streamer);
    streamers.push_back(std::move(*streamer));
  }
  std::vector<char> buffer(std::size_t{256} * 1024);
  const auto begin = steady_now();
  for (;;) {
    const auto done = turn(streamers, buffer);
    MUSTER_RETURN_IF_ERROR(done);
    if (*done) {
      break;
    }
  }
  const std::chrono::duration<double> seconds = steady_now() - begin;
  const auto each = plan.requests / kChunk * kChunk;
  return static_cast<double>(each * plan.clients) / seconds.count();
}

}  // namespace muster::bench
