// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/debug_watch.hpp"

#include "agent/watch/debug_clients.hpp"

#include <fmt/core.h>

#include <fstream>
#include <iterator>
#include <utility>
#include <variant>

namespace muster {
namespace {

std::string connections() {
  std::ifstream file("/proc/net/tcp");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

void DebugWatch::take(const JobEvent& event) {
  if (std::holds_alternative<event::RoundBegun>(event.what)) {
    workers_.clear();
    requested_->clear();  // those debuggers are attached to processes of the last round
  } else if (const auto* started = std::get_if<event::WorkerStarted>(&event.what)) {
    worker_started(*started);
  } else if (const auto* ended = std::get_if<event::WorkerEnded>(&event.what)) {
    std::erase_if(workers_, [&](const auto& entry) {
      return entry.second.local_rank == ended->exit.local_rank;
    });
  }
}

void DebugWatch::worker_started(const event::WorkerStarted& started) {
  const auto& ports = folder_.debug_ports();
  const auto port = ports.find(started.local_rank);
  const bool waits = port != ports.end() && setup_.config.debug_waits;
  workers_[started.rank] = {
      started.local_rank, port == ports.end() ? std::uint16_t{0} : port->second, waits};
  if (port != ports.end() && setup_.config.log_level <= LogLevel::warning) {
    show_(fmt::format(
        "muster: rank {} {} at 127.0.0.1:{} on {}; musterctl debug {} shows how to attach\n",
        started.rank,
        waits ? "waits for a debugger" : "accepts a debugger",
        port->second,
        setup_.hostname,
        started.rank));
  }
}

std::shared_ptr<void> DebugWatch::begin(int rank) {
  if (!workers_.contains(rank)) {
    return nullptr;
  }
  requested_->insert(rank);
  return {requested_.get(), [ranks = requested_, rank](void*) { ranks->extract(rank); }};
}

// A client that has connected and disconnected between two calls is noticed by the worker's steps.
bool DebugWatch::is_served(DebuggedWorker& worker,
                           const std::vector<std::optional<std::uint64_t>>& steps) const {
  if (worker.port == 0) {
    return false;
  }
  const bool connected = has_client(connections(), worker.port);
  const auto at = static_cast<std::size_t>(worker.local_rank);
  const bool stepped = at < steps.size() && steps[at];
  worker.waits = worker.waits && !connected && !stepped;
  return connected || worker.waits;
}

std::set<int> DebugWatch::ranks(const std::vector<std::optional<std::uint64_t>>& steps) {
  std::set<int> out;
  for (auto& [rank, worker] : workers_) {
    if (requested_->contains(rank) || is_served(worker, steps)) {
      out.insert(rank);
    }
  }
  return out;
}

}  // namespace muster
