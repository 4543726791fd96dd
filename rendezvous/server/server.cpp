// SPDX-License-Identifier: Apache-2.0
// The seam between the owner's loop and SessionSockets: one watched descriptor and one timer.
#include "rendezvous/server/server.hpp"

#include "rendezvous/server/listener.hpp"
#include "rendezvous/server/session_sockets.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <utility>

namespace muster {
namespace {

// How long new clients wait in the backlog before we look for a free descriptor again.
constexpr auto kAcceptRetry = std::chrono::milliseconds(100);

}  // namespace

struct StoreServer::Impl {
  Impl(asio::io_context& loop, std::unique_ptr<SessionSockets> owned)
      : sockets(std::move(owned)), watch(loop, sockets->fd()), retry(loop) {}

  // The descriptor belongs to the sockets.
  ~Impl() { watch.release(); }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void await_ready() {
    // The token: a handler that is queued already may run after we are gone.
    watch.async_wait(asio::posix::stream_descriptor::wait_read,
                     [this, token = std::weak_ptr(alive)](const asio::error_code& error) {
                       if (!error && !token.expired()) {
                         serve();
                       }
                     });
  }

  void serve() {
    sockets->serve();
    if (sockets->accept_paused()) {
      await_retry();
    }
    await_ready();
  }

  void await_retry() {
    retry.expires_after(kAcceptRetry);
    retry.async_wait([this, token = std::weak_ptr(alive)](const asio::error_code& error) {
      if (!error && !token.expired()) {
        sockets->accept_again();
      }
    });
  }

  std::unique_ptr<SessionSockets> sockets;
  asio::posix::stream_descriptor watch;
  asio::steady_timer retry;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

Result<std::unique_ptr<StoreServer>> StoreServer::open(asio::io_context& loop,
                                                       const std::string& address,
                                                       std::uint16_t port) {
  auto listener = listen_on(address, port);
  if (!listener) {
    return std::unexpected(std::move(listener.error()));
  }
  return open(loop, std::move(*listener));
}

Result<std::unique_ptr<StoreServer>> StoreServer::open(asio::io_context& loop, UniqueFd listener) {
  auto sockets = SessionSockets::open(std::move(listener));
  if (!sockets) {
    return std::unexpected(std::move(sockets.error()));
  }
  auto impl = std::make_unique<Impl>(loop, std::move(*sockets));
  impl->await_ready();
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl)));
}

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreServer::~StoreServer() = default;

std::uint16_t StoreServer::port() const {
  return port_of(impl_->sockets->listener());
}

void StoreServer::set_notice(std::function<void(const std::string&)> notice) {
  impl_->sockets->set_notice(std::move(notice));
}

void StoreServer::set_adopter(std::function<void(UniqueFd, std::string)> adopter) {
  impl_->sockets->set_adopter(std::move(adopter));
}

}  // namespace muster
