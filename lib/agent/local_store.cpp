// SPDX-License-Identifier: Apache-2.0
#include "agent/local_store.hpp"

#include "agent/store_place.hpp"

#include <utility>

namespace muster {
namespace {

// DNS servers that do not answer are asked for so long where MASTER_ADDR is a name.
constexpr Duration kLookupTimeout = std::chrono::seconds(15);

}  // namespace

void LocalStore::look_up(std::function<void()> ready) {
  const std::string& address = setup_.config.master_addr;
  if (!needs_lookup(address)) {
    addresses_ = std::vector{numeric_address(address)};
    ready();
    return;
  }
  lookup_.emplace(loop_,
                  address,
                  kLookupTimeout,
                  [this, ready = std::move(ready)](Result<std::vector<std::string>> found) {
                    addresses_ = std::move(found);
                    if (!addresses_) {
                      addresses_.error().code = Errc::unreachable;
                    }
                    ready();
                  });
}

// A store of its own for each round: workers of an earlier attempt that are not quite dead cannot
// reach the new ones, and no key is left over.
Result<std::vector<ProcessSpec>> LocalStore::open_round(int attempt, int restarts) {
  const LaunchConfig& config = setup_.config;
  store_.reset();
  if (!addresses_) {
    return std::unexpected(addresses_.error());
  }
  auto store = open_store(loop_, *addresses_, config.master_port);
  if (!store) {
    return std::unexpected(store.error());
  }
  store_ = std::move(*store);
  Assignment assignment =
      assign_alone(config.nproc, attempt, Endpoint{config.master_addr, store_->port()});
  assignment.restart_count = restarts;
  auto specs = place_.prepare_round(assignment);
  events_.set_round(static_cast<std::uint64_t>(attempt) + 1);
  events_.tell(
      event::RoundBegun{std::move(assignment), false, place_.run_folder(), place_.kept_logs()});
  return specs;
}

}  // namespace muster
