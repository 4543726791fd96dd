// SPDX-License-Identifier: Apache-2.0
// A StoreServer with a loop in its own thread, for tests of clients. Stops at the end of its scope.
#pragma once

#include "rendezvous/server/server.hpp"
#include "support/catch.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace muster::testing {

class ServerThread {
 public:
  explicit ServerThread(const std::string& address = "127.0.0.1",
                        std::uint16_t port = 0,
                        std::function<void(const std::string&)> notice = {}) {
    auto opened = StoreServer::open(loop_, address, port);
    REQUIRE(opened);
    server_ = std::move(*opened);
    server_->set_notice(std::move(notice));
    port_ = server_->port();
    thread_ = std::thread([this] { loop_.run(); });
  }

  ~ServerThread() {
    // The loop's thread owns the server until the thread exits.
    asio::post(loop_, [this] {
      server_.reset();
      loop_.stop();
    });
    thread_.join();
  }

  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  asio::io_context loop_{1};
  std::unique_ptr<StoreServer> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace muster::testing
