// SPDX-License-Identifier: Apache-2.0
// A server in a thread that serves connections one after another from a script: what each
// connection must receive, and what it answers. Then it closes the connection.
#pragma once

#include "rendezvous/server/listener.hpp"
#include "support/catch.hpp"

#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace muster::testing {

struct Exchange {
  std::size_t expects = 0;  // bytes to read before answering
  std::string answer;
};

class CannedServer {
 public:
  explicit CannedServer(std::vector<std::vector<Exchange>> connections) {
    auto listener = listen_on("127.0.0.1", 0);
    REQUIRE(listener);
    listener_ = std::move(*listener);
    port_ = port_of(listener_.get());
    thread_ = std::thread([this, script = std::move(connections)] {
      for (const auto& exchanges : script) {
        received_.push_back(serve(exchanges));
      }
    });
  }

  ~CannedServer() { join(); }

  CannedServer(const CannedServer&) = delete;
  CannedServer& operator=(const CannedServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }

  // The bytes that each connection received; waits for the end of the script.
  const std::vector<std::string>& received() {
    join();
    return received_;
  }

 private:
  void join() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  std::string serve(const std::vector<Exchange>& exchanges) {
    UniqueFd fd;
    while (!fd) {
      fd = UniqueFd(::accept(blocking(), nullptr, nullptr));
    }
    std::string all;
    for (const Exchange& exchange : exchanges) {
      std::string bytes(exchange.expects, '\0');
      const auto count = ::recv(fd.get(), bytes.data(), bytes.size(), MSG_WAITALL);
      all += bytes.substr(0, count < 0 ? 0 : static_cast<std::size_t>(count));
      static_cast<void>(
          ::send(fd.get(), exchange.answer.data(), exchange.answer.size(), MSG_NOSIGNAL));
    }
    return all;
  }

  // listen_on returns a non-blocking socket, but this thread has nothing to do except wait.
  int blocking() {
    timeval timeout{30, 0};
    static_cast<void>(
        ::setsockopt(listener_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)));
    const int flags = ::fcntl(listener_.get(), F_GETFL);
    static_cast<void>(::fcntl(listener_.get(), F_SETFL, flags & ~O_NONBLOCK));
    return listener_.get();
  }

  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::vector<std::string> received_;
  std::thread thread_;
};

}  // namespace muster::testing
