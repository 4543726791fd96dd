// SPDX-License-Identifier: Apache-2.0
#include "collective/mesh.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/text.hpp"
#include "collective/start_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster::collective {
namespace {

constexpr std::uint64_t kHelloMagic = 0x316c6c6f4354534d;  // "MSTColl1"
// Of one rank in one look: whoever keeps talking must not keep us from the others.
constexpr int kMostReads = 16;
// Somebody who connects and says nothing must not keep us from the others.
constexpr Duration kHelloPatience = std::chrono::seconds(2);
// Who has left may have done its part: its data come on other connections, and their ends after
// them. Only where a forked child keeps those open there is no end.
constexpr Duration kLeftPatience = std::chrono::seconds(1);

struct Hello {
  std::uint64_t magic;
  std::uint64_t token;
  std::int32_t rank;
  std::uint32_t lane;
};

template <class Struct>
std::span<const char> bytes_of(const Struct& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

Mesh::Mesh(int rank, int size, PeerWatch& local)
    : rank_(rank), local_(local), poller_(::epoll_create1(EPOLL_CLOEXEC)) {
  static_cast<void>(::getrandom(&token_, sizeof(token_), 0));
  peers_.resize(static_cast<std::size_t>(size));
}

Mesh::~Mesh() {
  const std::scoped_lock lock(mutex_);
  if (!fault_) {
    tell_all(Error{});
  }
}

Result<std::unique_ptr<Mesh>> Mesh::connect(const Meeting& meeting,
                                            const std::string& address,
                                            PeerWatch& local) {
  std::unique_ptr<Mesh> mesh(new Mesh(meeting.rank, meeting.size, local));
  const auto listening = listen_anywhere(meeting.size * static_cast<int>(kLanes));
  auto formed =
      listening ? mesh->form(meeting, address, *listening) : std::unexpected(listening.error());
  if (!formed) {
    // The others are told before they find our connections closed.
    if (meeting.watch != nullptr) {
      meeting.watch->tell(formed.error());
    }
    mesh->report(formed.error());
    return std::unexpected(std::move(formed.error()));
  }
  return mesh;
}

Result<void> Mesh::form(const Meeting& meeting,
                        const std::string& address,
                        const Listening& listening) {
  const auto cards =
      exchange_cards(meeting, "tcp", fmt::format("{} {} {}", address, listening.port, token_));
  if (!cards) {
    return std::unexpected(cards.error());
  }
  auto reached = reach_lower(meeting, *cards);
  return reached ? accept_higher(meeting, listening.fd.get()) : reached;
}

Result<void> Mesh::reach_lower(const Meeting& meeting, const std::vector<std::string>& cards) {
  for (int other = 0; other < rank_; ++other) {
    const auto words = muster::split(cards[static_cast<std::size_t>(other)], ' ');
    const auto port = words.size() == 3 ? parse_int(words[1]) : std::nullopt;
    if (!port) {
      return collective::failure(
          Errc::store,
          fmt::format("the store holds something else where rank {}'s address should be", other));
    }
    // Control first: from then on the other sees our death.
    for (std::uint32_t lane = kLanes; lane-- > 0;) {
      auto fd = connect_until(words[0], static_cast<std::uint16_t>(*port), meeting.deadline);
      const Hello hello{kHelloMagic, std::strtoull(words[2].c_str(), nullptr, 10), rank_, lane};
      if (!fd || !send_all(fd->get(), bytes_of(hello), meeting.deadline)) {
        return std::unexpected(
            not_reached(meeting, other, fd ? system_failure("greeting", errno) : fd.error()));
      }
      place(other, lane, std::move(*fd));
    }
  }
  return {};
}

// Everyone listens until all are connected: who refuses has died, or has given up and says why.
Error Mesh::not_reached(const Meeting& meeting, int other, Error error) const {
  const int why = error.native;
  if (why == ECONNREFUSED || why == ECONNRESET || why == EPIPE) {
    if (auto seen = meeting.watch != nullptr ? meeting.watch->reason() : std::nullopt) {
      return *seen;
    }
    error.code = Errc::peer_failed;
  }
  error.rank = other;
  error.text = fmt::format("rank {} cannot reach rank {}: {}", rank_, other, error.text);
  return error;
}

Result<void> Mesh::accept_higher(const Meeting& meeting, int listener) {
  const Duration slice =
      meeting.watch != nullptr ? meeting.watch->slice() : left_until(meeting.deadline);
  std::size_t wanted = static_cast<std::size_t>(meeting.size - 1 - rank_) * kLanes;
  while (wanted > 0) {
    UniqueFd fd = accept_until(listener, std::min(meeting.deadline, steady_now() + slice));
    if (fd) {
      const TimePoint patience = std::min(meeting.deadline, steady_now() + kHelloPatience);
      wanted -= take_connection(std::move(fd), patience) ? 1U : 0U;
    } else if (auto error = ended(meeting)) {
      return std::unexpected(std::move(*error));
    }
  }
  return {};
}

std::optional<Error> Mesh::ended(const Meeting& meeting) const {
  auto error = meeting.watch != nullptr ? meeting.watch->look() : std::nullopt;
  error = error ? error : failure();
  return error || steady_now() < meeting.deadline ? error : not_come(meeting);
}

void Mesh::place(int rank, std::uint32_t lane, UniqueFd fd) {
  const auto i = static_cast<std::size_t>(rank);
  if (lane == static_cast<std::uint32_t>(Lane::control)) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    static_cast<void>(::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd.get(), &event));
  }
  peers_[i].lanes[lane] = std::move(fd);
}

bool Mesh::take_connection(UniqueFd fd, TimePoint deadline) {
  Hello hello{};
  if (!receive_all(fd.get(), {reinterpret_cast<char*>(&hello), sizeof(hello)}, deadline) ||
      hello.magic != kHelloMagic || hello.token != token_ || hello.rank <= rank_ ||
      hello.rank >= size() || hello.lane >= kLanes) {
    return false;
  }
  if (peers_[static_cast<std::size_t>(hello.rank)].lanes[hello.lane]) {
    return false;
  }
  place(hello.rank, hello.lane, std::move(fd));
  return true;
}

Error Mesh::not_come(const Meeting& meeting) const {
  Error error{.code = Errc::timeout};
  for (int other = rank_ + 1; other < meeting.size && error.rank < 0; ++other) {
    const auto& lanes = peers_[static_cast<std::size_t>(other)].lanes;
    error.rank =
        std::ranges::all_of(lanes, [](const UniqueFd& fd) { return bool(fd); }) ? -1 : other;
  }
  error.text = fmt::format("rank {} did not connect to rank {} in time", error.rank, rank_);
  return error;
}

std::optional<Error> Mesh::failure() const {
  const std::scoped_lock lock(mutex_);
  if (!fault_) {
    if (const auto local = local_.failure()) {
      settle(*local);
    } else {
      listen_to_all();
      if (fault_) {
        local_.report(*fault_);  // before this rank may leave for it: the others wait here only
      }
    }
  }
  return fault_;
}

void Mesh::report(const Error& error) {
  local_.report(error);
  const std::scoped_lock lock(mutex_);
  settle(error);
}

// The first reason is the one that all get.
void Mesh::settle(const Error& error) const {
  if (!fault_) {
    fault_ = error;
    tell_all(error);
  }
}

// One try: the buffer of a connection that carries nothing else has room.
void Mesh::tell_all(const Error& error) const {
  const std::string words = ControlWords::encode(error);
  for (const Peer& peer : peers_) {
    const int control = peer.lanes[static_cast<std::size_t>(Lane::control)].get();
    if (control >= 0) {
      static_cast<void>(::send(control, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
  }
}

void Mesh::listen_to_all() const {
  std::array<epoll_event, 16> events{};
  const int count = ::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    listen_to(events[static_cast<std::size_t>(i)].data.u64);
  }
}

void Mesh::listen_to(std::size_t rank) const {
  Peer& peer = peers_[rank];
  UniqueFd& control = peer.lanes[static_cast<std::size_t>(Lane::control)];
  std::array<char, 4096> buffer{};
  ssize_t count = 1;
  for (int reads = 0; reads < kMostReads && count > 0; ++reads) {
    // It does not block. NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    count = ::recv(control.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    peer.words.take({buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))});
  }
  const int why = errno;
  understand(rank);
  if (count == 0 || (count < 0 && why != EAGAIN && why != EINTR)) {
    peer.is_gone = true;
    static_cast<void>(::epoll_ctl(poller_.get(), EPOLL_CTL_DEL, control.get(), nullptr));
    if (!peer.has_left && !fault_) {
      settle({.code = Errc::peer_failed,
              .rank = static_cast<int>(rank),
              .text = fmt::format("rank {} has died, or its host cannot be reached{}",
                                  rank,
                                  count == 0 ? "" : ": " + errno_words(why))});
    }
  }
}

void Mesh::understand(std::size_t rank) const {
  Peer& peer = peers_[rank];
  const auto word = peer.words.word();
  if (word && word->code != Errc::ok) {
    settle(*word);
  } else if (word && !peer.has_left) {
    peer.has_left = true;
    peer.left_at = steady_now();
  }
}

void Mesh::seen(int rank, const Request& called) {
  const std::scoped_lock lock(mutex_);
  peers_[static_cast<std::size_t>(rank)].last = called;
}

std::string Mesh::where(int rank, const Request& request) const {
  const std::scoped_lock lock(mutex_);
  const Request& last = peers_[static_cast<std::size_t>(rank)].last;
  if (last.seq == 0) {
    return "has not been seen in any operation";
  }
  const bool here = last.seq == request.seq && last.kind == request.kind;
  return (here ? "is in " : "was last seen in ") + last.describe();
}

std::optional<Error> Mesh::look(const Request& request, int missing) {
  return look(request, missing, kLeftPatience);
}

std::optional<Error> Mesh::look(const Request& request, int missing, Duration patience) {
  if (auto error = failure()) {
    local_.report(*error);
    return error;
  }
  if (missing < 0) {
    return std::nullopt;
  }
  bool left = false;
  {
    const std::scoped_lock lock(mutex_);
    const Peer& peer = peers_[static_cast<std::size_t>(missing)];
    left = peer.has_left && steady_now() >= peer.left_at + patience;
  }
  Error error{
      .code = left ? Errc::peer_failed : Errc::timeout, .rank = missing, .seq = request.told().seq};
  if (left) {
    error.text = fmt::format(
        "rank {} has left (exited, or closed its communicator), rank {} waits for it in {}",
        missing,
        rank_,
        request.told().describe());
  } else if (steady_now() >= request.deadline) {
    error.text = fmt::format("{} timed out on rank {}: rank {} is missing; it {}",
                             request.told().describe(),
                             rank_,
                             missing,
                             where(missing, request.told()));
  } else {
    return std::nullopt;
  }
  report(error);
  return failure();
}

Error Mesh::closed(const Request& request, int rank) {
  // The reason comes on the control lane, a moment before or after.
  const TimePoint deadline = steady_now() + std::chrono::milliseconds(200);
  while (steady_now() < deadline) {
    if (auto error = look(request, rank, Duration::zero())) {
      return *error;
    }
    epoll_event event{};
    static_cast<void>(::epoll_wait(poller_.get(), &event, 1, 10));
  }
  Error error{.code = Errc::peer_failed, .rank = rank, .seq = request.told().seq};
  error.text = fmt::format(
      "rank {} closed its connection to rank {} during {}", rank, rank_, request.told().describe());
  report(error);
  return failure().value_or(error);
}

}  // namespace muster::collective
