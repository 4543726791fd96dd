// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/fd_exchange.hpp"

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "base/time.hpp"
#include "base/unix_socket.hpp"
#include "collective/bootstrap/start_watch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster::collective {
namespace {

constexpr std::string_view kGreeting = "m";

UnixAddress address_of(const std::string& word) {
  return abstract_address("muster-" + word);
}

bool readable(int fd, TimePoint deadline) {
  while (true) {
    // poll() takes an int, so a long wait takes several calls.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_now()).count();
    pollfd watched{fd, POLLIN, 0};
    const int count =
        ::poll(&watched, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000)));
    if (count > 0) {
      return true;
    }
    if (count == 0 && steady_now() >= deadline) {
      return false;
    }
  }
}

// Waits until the descriptor is readable, but returns early when it is time to check for dead
// ranks.
bool comes(int fd, const BootstrapContext& context) {
  return readable(fd,
                  context.watch == nullptr
                      ? context.deadline
                      : std::min(context.deadline, steady_now() + context.watch->slice()));
}

bool same_user(int fd) {
  const auto who = peer_of(fd);
  return who && who->uid == ::geteuid();
}

}  // namespace

Result<FdGiver> FdGiver::open(const std::string& word) {
  // SOCK_SEQPACKET keeps message boundaries, so a rank number arrives as a whole.
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) {
    return std::unexpected(system_failure("cannot create a socket", errno));
  }
  const UnixAddress address = address_of(word);
  if (::bind(fd.get(), address.raw(), address.size) != 0 || ::listen(fd.get(), 1024) != 0) {
    return std::unexpected(system_failure("cannot listen for the ranks on this host", errno));
  }
  return FdGiver(std::move(fd));
}

Result<void> FdGiver::give(const std::vector<int>& fds,
                           std::set<int> takers,
                           const BootstrapContext& context) const {
  while (!takers.empty()) {
    if (!comes(fd_.get(), context)) {
      auto seen = context.watch != nullptr ? context.watch->look() : std::nullopt;
      if (seen || steady_now() < context.deadline) {
        if (seen) {
          return std::unexpected(std::move(*seen));
        }
        continue;
      }
      return std::unexpected(
          Error{.code = Errc::timeout,
                .rank = *takers.begin(),
                .text = fmt::format("{} on this host did not fetch the shared memory in time: {}",
                                    counted(takers.size(), "rank"),
                                    fmt::join(takers, ", "))});
    }
    const UniqueFd taker(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!taker && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      return std::unexpected(system_failure("cannot accept a connection from another rank", errno));
    }
    // Close connections from other users and connections without a valid rank. The expected rank
    // may still connect.
    int rank = -1;
    if (taker && same_user(taker.get()) && readable(taker.get(), context.deadline) &&
        ::recv(taker.get(), &rank, sizeof(rank), 0) == sizeof(rank) && takers.contains(rank) &&
        send_with_fds(taker.get(), kGreeting, fds)) {
      takers.erase(rank);
    }
  }
  return {};
}

Result<std::vector<UniqueFd>> take_fds(const std::string& word,
                                       int rank,
                                       std::size_t count,
                                       TimePoint deadline) {
  const UniqueFd from(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const UnixAddress address = address_of(word);
  if (!from || ::connect(from.get(), address.raw(), address.size) != 0 ||
      ::send(from.get(), &rank, sizeof(rank), MSG_NOSIGNAL) != sizeof(rank)) {
    const int why = errno;
    Error error = system_failure(
        "cannot connect to the rank on this host that created the shared memory", why);
    // The giver listens before it publishes the word, so a refused connection means that the giver
    // has died or failed.
    error.code = why == ECONNREFUSED || why == EPIPE ? Errc::peer_failed : error.code;
    return std::unexpected(std::move(error));
  }
  // Operations compute on this memory, so accept it only from our own user.
  if (!same_user(from.get())) {
    return failure(Errc::peer_failed,
                   "the process that provides this host's shared memory belongs to another user");
  }
  if (!readable(from.get(), deadline)) {
    return failure(Errc::timeout,
                   "the rank on this host that created the shared memory does not respond");
  }
  char greeting = 0;
  std::vector<UniqueFd> out = receive_with_fds(from.get(), {&greeting, 1});
  if (out.size() != count) {
    // If this process has no free descriptors, the kernel silently drops received descriptors.
    // Check for that.
    std::vector<UniqueFd> spare;
    for (std::size_t i = 0; i < count; ++i) {
      spare.emplace_back(::fcntl(from.get(), F_DUPFD_CLOEXEC, 0));
      if (!spare.back()) {
        return std::unexpected(system_failure("cannot receive this host's shared memory", errno));
      }
    }
    return failure(
        Errc::peer_failed,
        "the rank on this host that created the shared memory did not send it (it may have died, "
        "or belong to another user)");
  }
  return out;
}

}  // namespace muster::collective
