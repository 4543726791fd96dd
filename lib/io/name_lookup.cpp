// SPDX-License-Identifier: Apache-2.0
#include "io/name_lookup.hpp"

#include "base/clock.hpp"
#include "io/dns_query.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <utility>

namespace muster {

// Shared with pending handlers, which do nothing once the callback is cleared.
struct NameLookup::Impl : std::enable_shared_from_this<NameLookup::Impl> {
  DnsQuery query;
  asio::posix::stream_descriptor descriptor;
  asio::steady_timer timer;
  Callback callback;

  Impl(asio::io_context& loop, std::string name, Duration timeout, Callback when_done)
      : query(std::move(name), steady_now(), timeout),
        descriptor(loop),
        timer(loop),
        callback(std::move(when_done)) {
    if (!query.result()) {
      descriptor.assign(query.descriptor());
    }
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() { let_go(); }

  // The query owns the descriptor, so asio must release it without closing it.
  void let_go() {
    if (descriptor.is_open()) {
      descriptor.release();
    }
    timer.cancel();
  }

  void cancel() {
    callback = nullptr;
    let_go();
  }

  void wait_readable() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this()](const std::error_code& error) {
                            if (!error && self->callback) {
                              self->step();
                              if (self->callback) {
                                self->wait_readable();
                              }
                            }
                          });
  }

  void wait_deadline() {
    timer.expires_at(query.next_deadline(steady_now()));
    timer.async_wait([self = shared_from_this()](const std::error_code& error) {
      if (!error && self->callback) {
        self->step();
      }
    });
  }

  void step() {
    query.step(steady_now());
    if (query.result()) {
      finish();
    } else {
      wait_deadline();
    }
  }

  void finish() {
    let_go();
    const Callback call = std::exchange(callback, nullptr);
    call(*query.result());
  }
};

NameLookup::NameLookup(asio::io_context& loop,
                       std::string name,
                       Duration timeout,
                       Callback callback)
    : impl_(std::make_shared<Impl>(loop, std::move(name), timeout, std::move(callback))) {
  if (impl_->query.result()) {
    asio::post(loop, [self = impl_] {
      if (self->callback) {
        self->finish();
      }
    });
    return;
  }
  impl_->wait_readable();
  impl_->wait_deadline();
}

NameLookup::~NameLookup() {
  impl_->cancel();
}

}  // namespace muster
