// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/environment.hpp"

#include "base/text.hpp"
#include "collective/bootstrap/served_store.hpp"
#include "rendezvous/client/blocking_store.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>

namespace muster::collective {
namespace {

Result<std::int64_t> number(const Environ& environ,
                            const char* name,
                            std::int64_t least,
                            std::int64_t most) {
  const auto text = environ.get(name);
  if (!text) {
    return failure(Errc::invalid_argument,
                   fmt::format("{} is not set: start the program with muster or torchrun, or set "
                               "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
                               name));
  }
  const auto value = parse_int(*text);
  if (!value || *value < least || *value > most) {
    return failure(
        Errc::invalid_argument,
        fmt::format("{}='{}' is not an integer between {} and {}", name, *text, least, most));
  }
  return *value;
}

Result<std::int64_t> number_or_zero(const Environ& environ, const char* name) {
  return environ.get(name) ? number(environ, name, 0, std::numeric_limits<std::int64_t>::max())
                           : Result<std::int64_t>(0);
}

// A store client, and the server in this process if it has one. The server must outlive the client.
struct OwnStore {
  std::unique_ptr<ServedStore> server;
  std::unique_ptr<BlockingStore> client;
};

Result<Backend> backend_named(const std::string& word) {
  for (const Backend backend :
       {Backend::automatic, Backend::shm, Backend::tcp, Backend::hier, Backend::nccl}) {
    if (word == name_of(backend)) {
      return backend;
    }
  }
  return failure(Errc::invalid_argument,
                 "MUSTER_COLLECTIVE_BACKEND='" + word + "': use one of auto, shm, tcp, hier, nccl");
}

Result<void> override_duration(const Environ& environ, const char* name, Duration& value) {
  if (const auto text = environ.get(name)) {
    const auto parsed = parse_duration(*text);
    if (!parsed) {
      return std::unexpected(wrap(Errc::invalid_argument, name, parsed.error()));
    }
    value = *parsed;
  }
  return {};
}

template <class Value>
Result<void> override_number(const Environ& environ, const char* name, Value& value) {
  if (environ.get(name)) {
    const auto parsed = number(environ, name, 0, std::int64_t{1} << 46);
    MUSTER_RETURN_IF_ERROR(parsed);
    value = static_cast<Value>(*parsed);
  }
  return {};
}

}  // namespace

Result<WorkerPlace> worker_place(const Environ& environ) {
  WorkerPlace place;
  const auto size = number(environ, "WORLD_SIZE", 1, 1 << 20);
  MUSTER_RETURN_IF_ERROR(size);
  const auto rank = number(environ, "RANK", 0, *size - 1);
  MUSTER_RETURN_IF_ERROR(rank);
  const auto restarts = number_or_zero(environ, "TORCHELASTIC_RESTART_COUNT");
  MUSTER_RETURN_IF_ERROR(restarts);
  place.membership.rank = static_cast<int>(*rank);
  place.membership.size = static_cast<int>(*size);
  place.membership.epoch = static_cast<std::uint64_t>(*restarts);
  place.membership.job = environ.get("TORCHELASTIC_RUN_ID").value_or("job");
  place.agent_store = environ.get("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  if (*size == 1 && !environ.get("MASTER_ADDR")) {
    return place;  // single rank: no store needed
  }
  const auto port = number(environ, "MASTER_PORT", 1, 65535);
  MUSTER_RETURN_IF_ERROR(port);
  place.store_port = static_cast<std::uint16_t>(*port);
  place.store_host = environ.get("MASTER_ADDR").value_or("");
  if (place.store_host.empty()) {
    return failure(Errc::invalid_argument, "MASTER_ADDR is not set");
  }
  return place;
}

Result<CommOptions> with_overrides(CommOptions options, const Environ& environ) {
  if (const auto word = environ.get("MUSTER_COLLECTIVE_BACKEND")) {
    const auto backend = backend_named(*word);
    MUSTER_RETURN_IF_ERROR(backend);
    options.backend = *backend;
  }
  options.host = environ.get("MUSTER_COLLECTIVE_HOST").value_or(options.host);
  options.address = environ.get("MUSTER_COLLECTIVE_ADDRESS").value_or(options.address);
  options.port_range = environ.get("MUSTER_COLLECTIVE_PORT_RANGE").value_or(options.port_range);
  options.recorder_folder =
      environ.get("MUSTER_COLLECTIVE_FLIGHT_DIR").value_or(options.recorder_folder);
  const std::array<Result<void>, 4> done{
      override_duration(environ, "MUSTER_COLLECTIVE_TIMEOUT", options.timeout),
      override_duration(environ, "MUSTER_COLLECTIVE_INIT_TIMEOUT", options.init_timeout),
      override_number(environ, "MUSTER_COLLECTIVE_FLIGHT_ENTRIES", options.recorder_entries),
      override_number(environ, "MUSTER_COLLECTIVE_ARENA", options.arena_bytes)};
  for (const auto& each : done) {
    MUSTER_RETURN_IF_ERROR(each);
  }
  return options;
}

Result<PortRange> ports_named(const std::string& text) {
  if (text.empty()) {
    return PortRange{};
  }
  const auto dash = text.find('-');
  const auto first = parse_int(std::string_view(text).substr(0, dash));
  const auto last = dash == text.npos ? first : parse_int(std::string_view(text).substr(dash + 1));
  if (!first || !last || *first < 1 || *last > 65535 || *first > *last) {
    return failure(
        Errc::invalid_argument,
        fmt::format("port range '{}': must be two ports between 1 and 65535, such as 29500-29599 "
                    "(option port_range, MUSTER_COLLECTIVE_PORT_RANGE)",
                    text));
  }
  return PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

Result<std::shared_ptr<Store>> open_store(const WorkerPlace& place, Duration timeout) {
  if (place.store_host.empty()) {
    return std::shared_ptr<Store>();
  }
  auto own = std::make_shared<OwnStore>();
  if (!place.agent_store && place.membership.rank == 0) {
    // If the port is taken, another component of this job, such as PyTorch, already serves the
    // store.
    if (auto server = ServedStore::open(place.store_host, place.store_port)) {
      own->server = std::move(*server);
    }
  }
  auto client = BlockingStore::connect(place.store_host, place.store_port, timeout);
  if (!client) {
    return std::unexpected(
        wrap(Errc::store,
             fmt::format("rank {} of {}", place.membership.rank, place.membership.size),
             client.error()));
  }
  own->client = std::move(*client);
  Store* const store = own->client.get();
  return std::shared_ptr<Store>(std::move(own), store);
}

}  // namespace muster::collective
