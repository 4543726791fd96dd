// SPDX-License-Identifier: Apache-2.0
// Transport: the interface that a backend (shm, tcp, hier, nccl) implements for the communicator,
// and its context. Private to the library. A transport belongs to one communicator and one epoch;
// after its first fatal error it stays dead. One thread at a time calls start(); any thread may
// call abort().
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

// Records the progress of operations that continue without their caller, for the flight recorder.
// Any thread; cheap.
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
  Store* store = nullptr;  // valid during make() only; one thread at a time
  std::string prefix;      // "coll/<job>/<epoch>/<name>/": prefix of all keys
  std::string name;        // the communicator's name
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;
  int device = kHost;  // nccl: the device of the first buffer
  Duration init_timeout{};
  const Environ* environ = nullptr;  // valid during make() only
  // Describes the state of the ranks on this host. Any thread, while the transport exists.
  std::function<std::string()> positions = {};
  // Returns an error if a rank on this host called a different operation. Any thread.
  std::function<std::optional<Error>(const Request&)> disagreement = {};
  // These must outlive the transport.
  Progress* progress = nullptr;
  PeerWatch* peers = nullptr;
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // Whether start() would reject this request. Called before other ranks can see the operation.
  [[nodiscard]] virtual Result<void> refuse(const Request& /*request*/) const { return {}; }

  // Host buffers: completes the operation and returns null. Device buffers: queues it and returns
  // its pending state.
  [[nodiscard]] virtual Result<std::shared_ptr<Pending>> start(const Request& request) = 0;

  // Makes all current and future operations fail with this error, soon after the call. Any thread;
  // only the first call has an effect.
  virtual void abort(const Error& why) = 0;

  // Implements Communicator::alloc(): memory that operations use without a copy.
  [[nodiscard]] virtual Result<void*> alloc(std::size_t bytes) = 0;
  [[nodiscard]] virtual Result<void> free(void* memory) = 0;

  // Device backends only: a queue for gradients.
  [[nodiscard]] virtual Result<std::unique_ptr<DeviceQueue>> make_queue() {
    return failure(Errc::unsupported, "this backend supports only host memory");
  }
};

}  // namespace muster::collective
