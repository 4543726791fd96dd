// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/dialler.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// At least this much time remains for connecting, even if a slow lookup uses up the timeout.
constexpr Duration kConnectAtLeast = std::chrono::milliseconds(100);

}  // namespace

Dialler::Dialler(asio::io_context& loop,
                 const std::vector<Endpoint>& typed,
                 Turn turn,
                 Failed failed)
    : loop_(loop), typed_(typed), turn_(std::move(turn)), failed_(std::move(failed)) {}

std::string Dialler::as_seen_here(const std::string& host) const {
  const bool is_typed = std::ranges::find(typed_, host, &Endpoint::host) != typed_.end();
  return is_typed ? host : with_our_interface(host, own_address_);
}

void Dialler::dial(TimePoint now, const OpenLink& wanted) {
  if (auto numeric = SocketAddress::parse(as_seen_here(wanted.host), wanted.port)) {
    sockets_->connect(wanted.link, {*numeric}, wanted.timeout);
    return;
  }
  // Only the user can specify a name, because the decoder accepts only numeric addresses from
  // peers.
  auto lookup = std::make_unique<NameLookup>(
      loop_,
      wanted.host,
      wanted.timeout,
      [this, wanted, now](const Result<std::vector<std::string>>& addresses) {
        turn_([&](TimePoint later) { found(later, wanted, now, addresses); });
      });
  lookups_.emplace(wanted.link, std::move(lookup));
}

void Dialler::found(TimePoint now,
                    const OpenLink& wanted,
                    TimePoint asked,
                    const Result<std::vector<std::string>>& addresses) {
  // A lookup must not be destroyed from within its own callback.
  auto node = lookups_.extract(wanted.link);
  asio::post(loop_, [gone = std::shared_ptr<NameLookup>(std::move(node.mapped()))] {});
  if (!addresses) {
    failed_(LinkClosed{wanted.link, LinkEnd::no_name, addresses.error().message});
    return;
  }
  const Duration left = std::max(wanted.timeout - (now - asked), kConnectAtLeast);
  sockets_->connect(wanted.link, addresses_of(*addresses, wanted.port), left);
}

}  // namespace muster
