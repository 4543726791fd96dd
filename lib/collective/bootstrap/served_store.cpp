// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/served_store.hpp"

#include "base/blocked_signals.hpp"
#include "collective/bootstrap/process_life.hpp"
#include "io/own_address.hpp"
#include "io/user_admission.hpp"
#include "rendezvous/server/server.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <system_error>
#include <thread>
#include <utility>

#include <unistd.h>

namespace muster::collective {

namespace {

constexpr const char* kEverywhere = "::";

std::string listening_address(const std::string& host) {
  const std::string address = host == "localhost" ? "127.0.0.1" : host;
  return is_own_address(address) ? address : kEverywhere;
}

}  // namespace

struct ServedStore::Impl {
  asio::io_context loop{1};
  UserAdmission admission{::geteuid()};
  std::unique_ptr<StoreServer> server;
  std::thread thread;
  std::uint32_t generation = fork_generation();
};

ServedStore::ServedStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ServedStore::~ServedStore() {
  if (impl_->generation != fork_generation()) {
    impl_->thread.detach();  // the thread does not exist in this forked process
    [[maybe_unused]] const Impl* const parents = impl_.release();
    return;
  }
  impl_->loop.stop();
  impl_->thread.join();
}

std::uint16_t ServedStore::port() const {
  return impl_->server->port();
}

// asio and std::thread throw if the process has no descriptors or threads left.
Result<std::unique_ptr<ServedStore>> ServedStore::open(const std::string& host,
                                                       std::uint16_t port) {
  try {
    return try_open(listening_address(host), port);
  } catch (const std::system_error& error) {
    return std::unexpected(Error{.code = Errc::system,
                                 .native = error.code().value(),
                                 .text = fmt::format("cannot serve the store: {}", error.what())});
  }
}

Result<std::unique_ptr<ServedStore>> ServedStore::try_open(const std::string& address,
                                                           std::uint16_t port) {
  auto impl = std::make_unique<Impl>();
  auto server = StoreServer::open(impl->loop, address, port);
  if (!server && address == kEverywhere) {  // the machine may lack IPv6
    server = StoreServer::open(impl->loop, "0.0.0.0", port);
  }
  if (!server) {
    return std::unexpected(wrap(Errc::system, "cannot serve the store", server.error()));
  }
  impl->server = std::move(*server);
  impl->server->set_admission(&impl->admission);
  const BlockedSignals blocked;
  impl->thread = std::thread([loop = &impl->loop] {
    const auto busy = asio::make_work_guard(*loop);
    loop->run();
  });
  return std::unique_ptr<ServedStore>(new ServedStore(std::move(impl)));
}

}  // namespace muster::collective
