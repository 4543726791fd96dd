// SPDX-License-Identifier: Apache-2.0
// HttpServer: the sockets of one listener on the event loop. Accepts, reads, writes, and drops slow
// clients. Each turn does a bounded amount of work, so that other users of the loop are not
// delayed. It costs nothing while no client is connected. Resource; single-threaded.
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
  UniqueFd socket;             // listens, non-blocking; TCP or a Unix socket
  bool own_user_only = false;  // Unix socket: the peer must be our user, or root
  HttpAccess access;
};

class HttpServer {
 public:
  // `site` must outlive the server.
  HttpServer(asio::io_context& loop, HttpListener listener, HttpSite& site);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Notifies the server of new events on the site. Open streams get them shortly after, in batches.
  void events_came();

  // Sends what can be sent without blocking, then closes all connections.
  void close();

  [[nodiscard]] const HttpCounts& counts() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
