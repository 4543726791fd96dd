// SPDX-License-Identifier: Apache-2.0
// NamedHosts: restricts trust on first use to the hosts that the platform names. Resolves their
// addresses without blocking the loop. Runs on every node, because any node may become the leader.
// Resource: destroying it cancels the lookups, and the callback is then never called.
#pragma once

#include "base/error.hpp"
#include "config/launch_config.hpp"
#include "io/name_lookup.hpp"
#include "rendezvous/node/first_use.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace muster {

class NamedHosts {
 public:
  using Names = decltype(LaunchConfig::named_hosts);

  // Does nothing if there are no names, or if the job does not use trust on first use (`first_use`
  // is null).
  NamedHosts(asio::io_context& loop, Names names, std::shared_ptr<FirstUse> first_use);

  // Calls `done` once; immediately if there is nothing to resolve. If a name has no address, the
  // restriction is removed.
  void when_found(std::function<void()> done);

 private:
  void begin_some();
  void take(const Result<std::vector<std::string>>& addresses);
  void finish();

  asio::io_context& loop_;
  Names names_;
  std::shared_ptr<FirstUse> first_use_;
  std::function<void()> done_;
  std::set<std::string> addresses_;
  std::vector<std::unique_ptr<NameLookup>> lookups_;  // one per name
  std::size_t answered_ = 0;
};

}  // namespace muster
