// SPDX-License-Identifier: Apache-2.0
#include "agent/store/store_proxy.hpp"

#include "base/clock.hpp"
#include "rendezvous/server/admission_queue.hpp"
#include "rendezvous/server/descriptor_shortage.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include <sys/socket.h>

namespace muster {
namespace {

constexpr int kAcceptsAtOnce = 64;

}  // namespace

// Shared with pending handlers, which do nothing once `open` is false.
struct StoreProxy::Impl : std::enable_shared_from_this<StoreProxy::Impl> {
  asio::posix::stream_descriptor listener;
  asio::steady_timer again;
  AdmissionQueue admissions;  // local clients are admitted or refused immediately
  AdmissionQueue::Ticket last_ticket = 0;
  AcceptPause shortage{"worker"};
  Carry carry;
  std::function<void(const std::string&)> notice;
  bool open = true;

  Impl(asio::io_context& loop, UniqueFd fd, Admission& whom, Carry where)
      : listener(loop, fd.release()), again(loop), carry(std::move(where)) {
    admissions.set_admission(&whom, {});
  }

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
      } else if (is_shortage(why) && has_backlog(listener.native_handle())) {
        pause(why);
        return;
      } else if (is_shortage(why) || why == EAGAIN) {
        break;
      }
    }
    await();
  }

  void pause(int why) {
    say(shortage.begin(steady_now(), why));
    again.expires_at(*shortage.until());
    again.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error && self->open) {
        self->accept_some();
      }
    });
  }

  void take(UniqueFd fd) {
    const int connection = fd.get();
    admissions.ask(++last_ticket,
                   connection,
                   steady_now(),
                   [this, kept = std::make_shared<UniqueFd>(std::move(fd))](
                       const Result<void>& said) { judged(std::move(*kept), said); });
  }

  void judged(UniqueFd fd, const Result<void>& said) {
    if (!open) {
      return;
    }
    if (said) {
      carry(std::move(fd));
    } else {
      say(admissions.note_refusal(fd.get(), said.error(), steady_now()));
    }
  }

  void say(const std::optional<std::string>& text) {
    if (notice && text) {
      notice(*text);
    }
  }
};

Result<std::unique_ptr<StoreProxy>> StoreProxy::open(asio::io_context& loop,
                                                     std::uint16_t port,
                                                     PortRange range,
                                                     Admission& admission,
                                                     Carry carry) {
  auto listener = listen_on(kProxyAddress, port);
  if (!listener) {
    listener = listen_in_range(kProxyAddress, range);
  }
  MUSTER_RETURN_IF_ERROR(listener);
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
