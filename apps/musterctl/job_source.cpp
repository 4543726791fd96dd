// SPDX-License-Identifier: Apache-2.0
#include "job_source.hpp"

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/unix_socket.hpp"
#include "io/connect.hpp"
#include "io/resolver.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kStatusOk = 200;
constexpr int kKeyNeeded = 401;

Result<UniqueFd> connect_tcp(const Endpoint& to, TimePoint deadline) {
  const auto addresses = resolve_blocking(to.host, deadline - steady_now());
  MUSTER_RETURN_IF_ERROR(addresses);
  Error last{Errc::unreachable, "'" + to.host + "' has no address"};
  for (const std::string& address : *addresses) {
    const auto there = SocketAddress::parse(address, *to.port);
    MUSTER_RETURN_IF_ERROR(there);
    auto fd = connect_until(*there, deadline);
    if (fd) {
      return std::move(*fd);
    }
    last = connect_error(*there, fd.error());
  }
  return std::unexpected(last);
}

}  // namespace

Result<UniqueFd> connect_job_socket(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const UnixAddress address = abstract_address(name);
  if (!fd || ::connect(fd.get(), address.raw(), address.size) != 0) {
    return errno == EAGAIN
               ? failure(Errc::timed_out, "the launcher is not accepting connections")
               : failure(Errc::unreachable, "cannot reach the launcher: " + errno_text(errno));
  }
  const auto peer = peer_of(fd.get());
  if (!peer || (::geteuid() != 0 && peer->uid != ::geteuid())) {
    return failure(Errc::not_possible, "the job belongs to another user");
  }
  return fd;
}

Result<HttpStream> JobSource::ask(const std::string& target, TimePoint deadline) const {
  auto fd = endpoint ? connect_tcp(*endpoint, deadline) : connect_job_socket(socket);
  if (!fd && endpoint) {
    return failure(fd.error().code,
                   fmt::format("cannot reach {}: {}", endpoint->describe(), fd.error().message));
  }
  MUSTER_RETURN_IF_ERROR(fd);
  auto answer = HttpStream::get(
      std::move(*fd), endpoint ? endpoint->describe() : kJobSocketHost, target, deadline, key);
  if (!answer || answer->status() == kStatusOk) {
    return answer;
  }
  if (answer->status() == kKeyNeeded) {
    return failure(
        Errc::not_possible,
        fmt::format("the job on {} {}. Run musterctl on the job's host as the job's user, "
                    "or pass the key in a file (--http-key FILE). On that host, "
                    "musterctl url prints the URL with the key",
                    endpoint ? endpoint->describe() : kJobSocketHost,
                    key.empty() ? "needs a key" : "needs a different key"));
  }
  const auto text = answer->read_all(deadline);
  return failure(Errc::protocol,
                 fmt::format("GET {} failed with status {}: {}",
                             target,
                             answer->status(),
                             text ? printable(trim(*text)) : text.error().message));
}

Result<std::string> JobSource::get(const std::string& target, Duration timeout) const {
  const TimePoint deadline = steady_now() + timeout;
  auto answer = ask(target, deadline);
  MUSTER_RETURN_IF_ERROR(answer);
  return answer->read_all(deadline);
}

}  // namespace muster
