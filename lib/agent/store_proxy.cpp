// SPDX-License-Identifier: Apache-2.0
#include "agent/store_proxy.hpp"

#include "base/clock.hpp"
#include "io/socket_address.hpp"
#include "rendezvous/server/refusal_notes.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <cerrno>
#include <string>
#include <utility>

#include <sys/socket.h>

namespace muster {
namespace {

constexpr const char* kHere = "127.0.0.1";
constexpr int kAcceptsAtOnce = 64;

// While no descriptor is left for another connection.
constexpr Duration kShortagePause = std::chrono::milliseconds(100);

}  // namespace

// Shared with the handlers in flight, which do nothing once `open` is false.
struct StoreProxy::Impl : std::enable_shared_from_this<StoreProxy::Impl> {
  asio::posix::stream_descriptor listener;
  asio::steady_timer again;
  Admission& admission;
  Carry carry;
  RefusalNotes notes;
  std::function<void(const std::string&)> notice;
  bool open = true;

  Impl(asio::io_context& loop, UniqueFd fd, Admission& whom, Carry where)
      : listener(loop, fd.release()), again(loop), admission(whom), carry(std::move(where)) {}

  void await() {
    listener.async_wait(asio::posix::stream_descriptor::wait_read,
                        [self = shared_from_this()](const asio::error_code& error) {
                          if (!error && self->open) {
                            self->accept_some();
                          }
                        });
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsAtOnce && open; ++i) {
      UniqueFd fd(
          ::accept4(listener.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      const int why = fd ? 0 : errno;
      if (fd) {
        take(std::move(fd));
      } else if (why == EMFILE || why == ENFILE || why == ENOMEM || why == ENOBUFS) {
        pause();
        return;
      } else if (why == EAGAIN) {
        break;
      }
    }
    await();
  }

  void pause() {
    again.expires_after(kShortagePause);
    again.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error && self->open) {
        self->accept_some();
      }
    });
  }

  void take(UniqueFd fd) {
    const SocketAddress there = peer_address(fd.get());
    const SocketAddress here = local_address(fd.get());
    admission.admit({there.host(), there.port(), here.host(), here.port()},
                    [self = weak_from_this(),
                     kept = std::make_shared<UniqueFd>(std::move(fd))](const Result<void>& said) {
                      const auto proxy = self.lock();
                      if (proxy && proxy->open) {
                        proxy->judged(std::move(*kept), said);
                      }
                    });
  }

  void judged(UniqueFd fd, const Result<void>& said) {
    if (said) {
      carry(std::move(fd));
    } else if (said.error().code != Errc::closed) {
      const auto text = notes.refused(describe_peer(fd.get()), said.error(), steady_now());
      if (notice && text) {
        notice(*text);
      }
    }
  }
};

Result<std::unique_ptr<StoreProxy>> StoreProxy::open(asio::io_context& loop,
                                                     std::uint16_t port,
                                                     PortRange range,
                                                     Admission& admission,
                                                     Carry carry) {
  auto listener = listen_on(kHere, port);
  if (!listener) {
    listener = listen_in_range(kHere, range);
  }
  if (!listener) {
    return std::unexpected(listener.error());
  }
  auto impl = std::make_shared<Impl>(loop, std::move(*listener), admission, std::move(carry));
  impl->await();
  return std::unique_ptr<StoreProxy>(new StoreProxy(std::move(impl)));
}

StoreProxy::StoreProxy(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreProxy::~StoreProxy() {
  impl_->open = false;
  impl_->listener.close();
  impl_->again.cancel();
}

std::uint16_t StoreProxy::port() const {
  return port_of(impl_->listener.native_handle());
}

void StoreProxy::set_notice(std::function<void(const std::string&)> notice) {
  impl_->notice = std::move(notice);
}

}  // namespace muster
