// SPDX-License-Identifier: Apache-2.0
#include "agent/rounds/local_store.hpp"

#include "agent/store/store_address.hpp"
#include "io/own_address.hpp"

#include <utility>

namespace muster {
namespace {

// How long to wait for unresponsive DNS servers if MASTER_ADDR is a name.
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

// Each round gets a new store. Lingering workers from an earlier attempt therefore cannot reach the
// new workers, and no stale keys remain.
Result<std::uint16_t> LocalStore::open_port() {
  store_.reset();
  MUSTER_RETURN_IF_ERROR(addresses_);
  if (!setup_.config.agent_store) {
    return ports_.for_store();
  }
  auto store =
      open_store(loop_, *addresses_, setup_.config.master_port, port_range_of(setup_.config));
  MUSTER_RETURN_IF_ERROR(store);
  store_ = std::move(*store);
  store_->set_admission(admission_);
  store_->set_notice([this](const std::string& text) { events_.say(LogLevel::warning, text); });
  return store_->port();
}

// In a single-node job this node also has rank 0.
Result<Assignment> LocalStore::assignment(int attempt) {
  const LaunchConfig& config = setup_.config;
  const auto port = open_port();
  MUSTER_RETURN_IF_ERROR(port);
  auto ports = ports_.for_node();
  MUSTER_RETURN_IF_ERROR(ports);
  auto leader_ports = ports_.for_leader();
  MUSTER_RETURN_IF_ERROR(leader_ports);
  const bool is_loopback = config.master_addr == kLoopback;  // a host may have only ::1
  const std::string& host = is_loopback ? addresses_->front() : config.master_addr;
  Assignment out = assign_alone(config.nproc, attempt, Endpoint{host, *port});
  out.restart_count = attempt;
  out.agent_store = config.agent_store;
  out.ports = std::move(*ports);
  set_leader_ports(out, std::move(*leader_ports), config.jax);
  return out;
}

Result<std::vector<ProcessSpec>> LocalStore::open_round(int attempt) {
  auto made = assignment(attempt);
  MUSTER_RETURN_IF_ERROR(made);
  made->epoch += mends_;
  current_ = *made;
  auto specs = run_folder_.prepare_round(*made);
  events_.set_round(made->epoch);
  events_.tell(
      event::RoundBegun{std::move(*made), false, run_folder_.path(), run_folder_.kept_logs()});
  return specs;
}

Result<MendToRun> LocalStore::open_mend(const std::vector<int>& local_ranks) {
  ++mends_;
  ++current_.epoch;
  auto specs = run_folder_.prepare_mend(current_, local_ranks);
  MUSTER_RETURN_IF_ERROR(specs);
  events_.set_round(current_.epoch);
  return MendToRun{.number = 0, .epoch = current_.epoch, .specs = std::move(*specs)};
}

}  // namespace muster
