// SPDX-License-Identifier: Apache-2.0
// Transport: what a back end (shm, tcp, hier, nccl) provides to the communicator, and what it is
// given. Private to the library. A transport belongs to one communicator and one epoch; after its
// first fatal error it stays dead. start() is called by one thread at a time, abort() by any.
#pragma once

#include "base/environ.hpp"
#include "base/time.hpp"
#include "collective/error.hpp"
#include "collective/transport/device_queue.hpp"
#include "collective/transport/peer_watch.hpp"
#include "collective/transport/request.hpp"
#include "collective/types.hpp"
#include "collective/work.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace muster {
class Store;
}

namespace muster::collective {

// What a back end reports of an operation that runs on without its caller; it ends up in the flight
// recorder. Calls from any thread, cheap.
class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  virtual ~Progress() = default;

  virtual void started(const Request& request) = 0;
  virtual void completed(const Request& request) = 0;
};

struct TransportContext {
  Store* store = nullptr;  // outlives make(), not the transport; one thread at a time
  std::string prefix;      // "coll/<job>/<epoch>/<name>/": in front of every key that we use
  std::string name;        // of the communicator
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;
  int device = kHost;  // nccl: the device of the first buffer
  Duration init_timeout{};
  const Environ* environ = nullptr;  // outlives make() only
  // Describes where the ranks of this host are; any thread, while the transport is there.
  std::function<std::string()> positions = {};
  // What is wrong if a rank of this host calls something else where this one calls that; any
  // thread.
  std::function<std::optional<Error>(const Request&)> disagreement = {};
  // These outlive the transport.
  Progress* progress = nullptr;
  PeerWatch* peers = nullptr;
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // Why start() cannot do this; asked before others can see that it was called.
  [[nodiscard]] virtual Result<void> refuse(const Request& /*request*/) const { return {}; }

  // Host buffers: performs the operation before it returns, and returns null. Device buffers:
  // queues it and returns what can be waited for.
  [[nodiscard]] virtual Result<std::shared_ptr<Pending>> start(const Request& request) = 0;

  // Every operation, now and later, ends with this error, soon. Any thread; the first call counts.
  virtual void abort(const Error& why) = 0;

  // Memory for operations without a copy (alloc of the communicator).
  [[nodiscard]] virtual Result<void*> alloc(std::size_t bytes) = 0;
  [[nodiscard]] virtual Result<void> free(void* memory) = 0;

  // Of devices, for gradients: what there is beside operations.
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceQueue>> make_queue() {
    return failure(Errc::unsupported, "this back end is for memory of the host");
  }
};

}  // namespace muster::collective
