// SPDX-License-Identifier: Apache-2.0
// HttpServer: the sockets of one listener on the loop: accepts, reads, writes, drops who is slow.
// Each turn does a bounded piece of work, so the loop's other users never wait for long; nothing
// costs anything while nobody is connected. Resource; one thread.
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
  // `site` outlives it.
  HttpServer(asio::io_context& loop, HttpListener listener, HttpSite& site);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The site has events that open streams have not had; they get them a little later, many at once.
  void events_came();

  // What can be sent without waiting is sent, and all is closed.
  void close();

  [[nodiscard]] const HttpCounts& counts() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
