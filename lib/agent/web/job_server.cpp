// SPDX-License-Identifier: Apache-2.0
#include "agent/web/job_server.hpp"

#include "base/clock.hpp"
#include "base/unix_socket.hpp"
#include "io/own_address.hpp"
#include "io/socket_address.hpp"
#include "rendezvous/server/listener.hpp"
#include "status/job_report.hpp"
#include "status/job_socket.hpp"
#include "trust/token_file.hpp"

#include <fmt/core.h>

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
// These paths return no text from the program, so probes and Prometheus can read them without a
// key.
const std::vector<std::string> kOpenPaths{"/healthz", "/readyz", "/metrics"};

Result<UniqueFd> listen_for_musterctl(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const UnixAddress address = abstract_address(name);
  if (!fd || ::bind(fd.get(), address.raw(), address.size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return std::unexpected(system_error("cannot listen for musterctl", errno));
  }
  return fd;
}

// Empty if no key is required.
Result<std::string> key_of(const LaunchConfig& config) {
  if (!config.http_has_key) {
    return "";
  }
  if (config.http_key_file.empty()) {
    return make_token();
  }
  auto token = read_token(token_file_source(config.http_key_file));
  if (!token) {
    return std::unexpected(token.error().during("--http-key"));
  }
  if (!is_url_safe(token->secret)) {
    return failure(
        Errc::usage,
        fmt::format("--http-key: the key in {} becomes part of a URL, so it may contain only "
                    "letters, digits and -._~. Create one with: openssl rand -hex 32",
                    config.http_key_file));
  }
  return std::move(token->secret);
}

// "http://127.0.0.1:8080/". If the server listens on all addresses, the URL contains this host's
// name.
std::string url_of(const std::string& address, int port, const std::string& hostname) {
  const bool is_any = address == "0.0.0.0" || address == "::";
  return "http://" +
         Endpoint{is_any ? hostname : address, static_cast<std::uint16_t>(port)}.describe() + "/";
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
                           readings_.stats,
                           [this] {
                             for (auto* server : {&job_socket_, &http_}) {
                               if (*server) {
                                 (*server)->events_came();
                               }
                             }
                           }}) {}

Result<void> JobServer::start() {
  open_job_socket();
  if (setup_.config.http) {
    auto key = key_of(setup_.config);
    MUSTER_RETURN_IF_ERROR(key);
    open_http(std::move(*key));
  }
  return {};
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

// A host without abstract Unix sockets (a sandbox) can still run jobs.
void JobServer::open_job_socket() {
  auto socket =
      listen_for_musterctl(std::string(kJobSocketPrefix) + setup_.random.substr(0, kRunLetters));
  if (!socket) {
    events_.say(LogLevel::info, socket.error().message);
    return;
  }
  job_socket_.emplace(loop_, HttpListener{std::move(*socket), true, {}}, owner_site_);
}

void JobServer::open_http(std::string key) {
  Endpoint where = *setup_.config.http;
  if (where.host == kLoopback) {
    where.host = loopback_address();
  }
  auto socket = listen_on(where.host, where.port.value_or(0));
  if (!socket) {
    events_.say(LogLevel::warning, "--http: " + socket.error().message + "; continuing without it");
    return;
  }
  const int port = port_of(socket->get());
  show_url(url_of(where.host, port, setup_.hostname), key);
  HttpAccess access{is_loopback(where.host), std::move(key), kOpenPaths};
  http_.emplace(loop_, HttpListener{std::move(*socket), false, std::move(access)}, site_);
  events_.tell(event::HttpOpened{where.host, port});
}

// Shows the URL on stderr instead of in an event: it contains the key, and events are written to
// files and HTTP responses.
void JobServer::show_url(const std::string& base, const std::string& key) {
  const std::string url = key.empty() ? base : base + "?key=" + key;
  owner_site_.set_url(url + "\n");
  if (setup_.config.log_level > LogLevel::warning) {
    return;
  }
  if (key.empty() || !setup_.stderr_is_public) {
    readings_.show(fmt::format("muster: job status at {}\n", url));
  } else {
    readings_.show(
        fmt::format("muster: job status at {}; standard error is a file that other users can read, "
                    "so the key is omitted. To get the URL with the key, run musterctl url "
                    "--pid {}\n",
                    base,
                    ::getppid()));
  }
}

void JobServer::tell_loss() {
  if (const std::string line = loss_line(site_.spent()); !line.empty()) {
    events_.say(LogLevel::warning, line);
  }
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
