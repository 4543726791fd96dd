// SPDX-License-Identifier: Apache-2.0
#include "agent/job_server.hpp"

#include "base/clock.hpp"
#include "base/unix_socket.hpp"
#include "io/own_address.hpp"
#include "io/socket_address.hpp"
#include "rendezvous/server/listener.hpp"
#include "status/job_socket.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kRunLetters = 16;
constexpr std::size_t kEventIdLetters = 8;
constexpr int kBacklog = 64;

Result<UniqueFd> listen_for_musterctl(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const UnixAddress address = abstract_address(name);
  if (!fd || ::bind(fd.get(), address.raw(), address.size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return std::unexpected(system_error("cannot listen for musterctl", errno));
  }
  return fd;
}

}  // namespace

JobServer::JobServer(asio::io_context& loop,
                     const AgentSetup& setup,
                     EventStream& events,
                     Readings readings)
    : loop_(loop),
      setup_(setup),
      events_(events),
      readings_(std::move(readings)),
      site_(setup.random.substr(0, kEventIdLetters),
            ::getpid(),
            JobSite::Means{wall_now_seconds,
                           [this] { return extra(); },
                           readings_.steps,
                           readings_.waits,
                           [this] {
                             for (auto* server : {&job_socket_, &http_}) {
                               if (*server) {
                                 (*server)->events_came();
                               }
                             }
                           }}) {}

void JobServer::start() {
  open_job_socket();
  if (setup_.config.http) {
    open_http();
  }
}

MetricsExtra JobServer::extra() const {
  MetricsExtra out;
  out.now = wall_now_seconds();
  out.output_bytes = readings_.output_bytes();
  for (const auto* server : {&job_socket_, &http_}) {
    if (*server) {
      out.http_requests += (*server)->counts().answered;
      out.http_refused += (*server)->counts().refused;
    }
  }
  return out;
}

// A machine that has no such sockets (a sandbox) still runs jobs.
void JobServer::open_job_socket() {
  auto socket =
      listen_for_musterctl(std::string(kJobSocketPrefix) + setup_.random.substr(0, kRunLetters));
  if (!socket) {
    events_.say(LogLevel::info, socket.error().message);
    return;
  }
  job_socket_.emplace(loop_, HttpListener{std::move(*socket), true, {}}, site_);
}

void JobServer::open_http() {
  const Endpoint& where = *setup_.config.http;
  auto socket = listen_on(where.host, where.port.value_or(0));
  if (!socket) {
    events_.say(LogLevel::warning, "--http: " + socket.error().message + "; the job goes on");
    return;
  }
  const int port = port_of(socket->get());
  http_.emplace(
      loop_, HttpListener{std::move(*socket), false, HttpAccess{is_loopback(where.host)}}, site_);
  events_.tell(event::HttpOpened{where.host, port});
}

void JobServer::close() {
  for (auto* server : {&http_, &job_socket_}) {
    if (*server) {
      (*server)->close();
      server->reset();
    }
  }
}

}  // namespace muster
