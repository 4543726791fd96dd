// SPDX-License-Identifier: Apache-2.0
#include "collective/fd_exchange.hpp"

#include "base/clock.hpp"
#include "base/time.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace muster::collective {
namespace {

constexpr std::size_t kMostFds = 8;

struct Address {
  sockaddr_un storage{};
  socklen_t size = 0;
};

// In the abstract namespace: gone with its socket.
Address address_of(const std::string& word) {
  Address out;
  out.storage.sun_family = AF_UNIX;
  const std::string name = "muster-" + word;
  const std::size_t length = std::min(name.size(), sizeof(out.storage.sun_path) - 1);
  std::memcpy(out.storage.sun_path + 1, name.data(), length);
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return out;
}

const sockaddr* raw(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

bool readable(int fd, TimePoint deadline) {
  while (true) {
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

bool same_user(int fd) {
  ucred who{};
  socklen_t size = sizeof(who);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::geteuid();
}

// One message: a byte with descriptors beside it.
struct Message {
  char byte = 'm';
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> control{};
  msghdr header{};

  explicit Message(std::size_t fds) {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds * sizeof(int));
  }
};

bool send_fds(int to, const std::vector<int>& fds) {
  Message message(fds.size());
  cmsghdr* const part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(to, &message.header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

}  // namespace

Result<FdGiver> FdGiver::open(const std::string& word) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) {
    return std::unexpected(system_failure("making a socket", errno));
  }
  const Address address = address_of(word);
  if (::bind(fd.get(), raw(address), address.size) != 0 || ::listen(fd.get(), 1024) != 0) {
    return std::unexpected(system_failure("listening for the ranks of this host", errno));
  }
  return FdGiver(std::move(fd));
}

Result<void> FdGiver::give(const std::vector<int>& fds,
                           std::set<int> takers,
                           TimePoint deadline) const {
  while (!takers.empty()) {
    if (!readable(fd_.get(), deadline)) {
      return std::unexpected(
          Error{.code = Errc::timeout,
                .rank = *takers.begin(),
                .text = fmt::format("{} ranks of this host did not come for the memory in time: {}",
                                    takers.size(),
                                    fmt::join(takers, ", "))});
    }
    const UniqueFd taker(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    int rank = -1;
    if (taker && same_user(taker.get()) && readable(taker.get(), deadline) &&
        ::recv(taker.get(), &rank, sizeof(rank), 0) == sizeof(rank) && takers.contains(rank) &&
        send_fds(taker.get(), fds)) {
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
  const Address address = address_of(word);
  if (!from || ::connect(from.get(), raw(address), address.size) != 0 ||
      ::send(from.get(), &rank, sizeof(rank), MSG_NOSIGNAL) != sizeof(rank)) {
    Error error = system_failure("reaching the rank of this host that shares its memory", errno);
    error.code = errno == ECONNREFUSED || errno == EPIPE ? Errc::peer_failed : error.code;
    return std::unexpected(std::move(error));
  }
  if (!readable(from.get(), deadline)) {
    return failure(Errc::timeout, "the rank of this host that shares its memory does not answer");
  }
  Message message(kMostFds);
  const ssize_t got = ::recvmsg(from.get(), &message.header, MSG_CMSG_CLOEXEC);
  std::vector<UniqueFd> out;
  const cmsghdr* const part = got > 0 ? CMSG_FIRSTHDR(&message.header) : nullptr;
  if (part != nullptr && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
    std::array<int, kMostFds> fds{};
    const std::size_t bytes = std::min(part->cmsg_len - CMSG_LEN(0), sizeof(fds));
    std::memcpy(fds.data(), CMSG_DATA(part), bytes);
    for (std::size_t i = 0; i < bytes / sizeof(int); ++i) {
      out.emplace_back(fds[i]);
    }
  }
  if (out.size() != count) {
    return failure(Errc::system,
                   "the rank of this host that shares its memory sent no memory (another user?)");
  }
  return out;
}

}  // namespace muster::collective
