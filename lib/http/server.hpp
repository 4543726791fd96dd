// SPDX-License-Identifier: Apache-2.0
// HttpServer: the sockets of one listener on the event loop. It accepts, reads and writes, and
// drops slow clients. Each turn does a limited amount of work, so that other users of the loop are
// not delayed. Without connected clients it costs nothing. Resource; single-threaded.
#pragma once

#include "base/fd.hpp"
#include "http/access.hpp"
#include "http/session.hpp"
#include "http/site.hpp"

#include <cstddef>
#include <memory>

namespace asio {
class io_context;
}

namespace muster {

inline constexpr std::size_t kHttpConnectionsMax = 64;

struct HttpListener {
  UniqueFd socket;             // listening and non-blocking; TCP or Unix
  bool own_user_only = false;  // Unix socket: only our user and root may connect
  HttpAccess access;
};

class HttpServer {
 public:
  // `site` must outlive the server.
  HttpServer(asio::io_context& loop, HttpListener listener, HttpSite& site);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Notifies the server of new events on the site. Open streams receive them shortly afterwards, in
  // batches.
  void events_came();

  // Sends what the kernel accepts without blocking, then closes all connections.
  void close();

  [[nodiscard]] const HttpCounts& counts() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
