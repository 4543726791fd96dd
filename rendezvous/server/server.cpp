// SPDX-License-Identifier: Apache-2.0
// Runs SessionSockets on the owner's loop, with one watched descriptor and one timer.
#include "rendezvous/server/server.hpp"

#include "base/clock.hpp"
#include "rendezvous/server/listener.hpp"
#include "rendezvous/server/session_sockets.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <optional>
#include <utility>

namespace muster {

struct StoreServer::Impl {
  Impl(asio::io_context& loop, std::unique_ptr<SessionSockets> owned)
      : sockets(std::move(owned)), watch(loop, sockets->fd()), timer(loop) {}

  // The sockets own the descriptor.
  ~Impl() { watch.release(); }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void await_ready() {
    // The token lets a queued handler detect that this object has been destroyed.
    watch.async_wait(asio::posix::stream_descriptor::wait_read,
                     [this, token = std::weak_ptr(alive)](const asio::error_code& error) {
                       if (!error && !token.expired()) {
                         serve();
                       }
                     });
  }

  void serve() {
    sockets->serve();
    await_deadline();
    await_ready();
  }

  // There is a deadline only while descriptors are exhausted or a client waits for admission.
  void await_deadline() {
    const auto next = sockets->next_deadline();
    if (!next || next == timer_is_for) {
      return;
    }
    timer_is_for = next;
    timer.expires_at(*next);
    timer.async_wait([this, token = std::weak_ptr(alive)](const asio::error_code& error) {
      if (!error && !token.expired()) {
        timer_is_for.reset();
        sockets->expire(steady_now());
        await_deadline();
      }
    });
  }

  std::unique_ptr<SessionSockets> sockets;
  asio::posix::stream_descriptor watch;
  asio::steady_timer timer;
  std::optional<TimePoint> timer_is_for;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
};

Result<std::unique_ptr<StoreServer>> StoreServer::open(asio::io_context& loop,
                                                       const std::string& address,
                                                       std::uint16_t port) {
  auto listener = listen_on(address, port);
  MUSTER_RETURN_IF_ERROR(listener);
  return open(loop, std::move(*listener));
}

Result<std::unique_ptr<StoreServer>> StoreServer::open(asio::io_context& loop, UniqueFd listener) {
  auto sockets = SessionSockets::open(std::move(listener));
  MUSTER_RETURN_IF_ERROR(sockets);
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

void StoreServer::set_admission(Admission* admission, const AdmissionLimits& limits) {
  impl_->sockets->set_admission(admission, limits);
}

void StoreServer::set_adopter(std::function<void(UniqueFd, std::string)> adopter) {
  impl_->sockets->set_adopter(std::move(adopter));
}

}  // namespace muster
