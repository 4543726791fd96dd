// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/link_dialler.hpp"

#include "base/clock.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// What a slow lookup leaves for the connection.
constexpr Duration kConnectAtLeast = std::chrono::milliseconds(100);

}  // namespace

void LinkDialler::open(const OpenLink& wanted, const std::string& host) {
  if (auto numeric = SocketAddress::parse(host, wanted.port)) {
    sockets_->connect(wanted.link, {*numeric}, wanted.timeout);
    return;
  }
  auto lookup = std::make_unique<NameLookup>(
      loop_,
      wanted.host,
      wanted.timeout,
      [this, wanted, asked = steady_now()](Result<std::vector<std::string>> found) {
        turn_([&] { name_found(wanted, asked, std::move(found)); });
      });
  lookups_.emplace(wanted.link, std::move(lookup));
}

void LinkDialler::name_found(const OpenLink& wanted,
                             TimePoint asked,
                             Result<std::vector<std::string>> found) {
  // A lookup may not be destroyed by its own callback.
  auto node = lookups_.extract(wanted.link);
  asio::post(loop_, [gone = std::shared_ptr<NameLookup>(std::move(node.mapped()))] {});
  if (!found) {
    no_name_(wanted.link, found.error().message);
    return;
  }
  const Duration left = std::max(wanted.timeout - (steady_now() - asked), kConnectAtLeast);
  sockets_->connect(wanted.link, addresses_of(*found, wanted.port), left);
}

}  // namespace muster
