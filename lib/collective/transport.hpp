// SPDX-License-Identifier: Apache-2.0
// Transport: what a back end (shm, tcp, hier, nccl) provides to the communicator, and what it is
// given. Private to the library. A transport belongs to one communicator and one epoch; after its
// first fatal error it stays dead. start() is called by one thread at a time, abort() by any.
#pragma once

#include "base/environ.hpp"
#include "base/time.hpp"
#include "collective/device_queue.hpp"
#include "collective/error.hpp"
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

[[nodiscard]] inline bool is_transfer(Kind kind) {
  return kind == Kind::send || kind == Kind::recv;
}

// One operation as this rank called it, checked by the communicator: the counts fit, the pointers
// are there, root is a rank.
struct Request {
  Kind kind = Kind::barrier;
  Op op = Op::sum;
  DType dtype = DType::u8;
  // all_reduce, reduce, broadcast, send, recv: elements of the buffer. all_gather: of `in`.
  // reduce_scatter: of `out`. all_to_all: of one block.
  std::uint64_t count = 0;
  int root = -1;  // of reduce and broadcast; the other side of send and recv
  double scale = 1;
  const void* in = nullptr;  // broadcast and recv: null; send: the data
  void* out = nullptr;       // reduce, not on the root: may be null
  int device = kHost;
  void* stream = nullptr;
  std::uint64_t seq = 0;  // send and recv have numbers of their own pair
  TimePoint deadline = {};
  // hier only, which sums in two steps: what avg divides by, if not the ranks of this step.
  std::uint64_t average_over = 0;
  // hier only: what the user called, if this is a step of it. Ranks compare and tell that.
  const Request* asked = nullptr;

  [[nodiscard]] const Request& told() const { return asked != nullptr ? *asked : *this; }

  // Kind, operation and type in one word, as ranks compare them.
  [[nodiscard]] std::uint32_t what() const {
    return static_cast<std::uint32_t>(kind) | static_cast<std::uint32_t>(op) << 8 |
           static_cast<std::uint32_t>(dtype) << 16;
  }

  void set_what(std::uint32_t what) {
    kind = static_cast<Kind>(what & 0xff);
    op = static_cast<Op>(what >> 8 & 0xff);
    dtype = static_cast<DType>(what >> 16 & 0xff);
  }

  // "all_reduce #119 sum f32[6553600]".
  [[nodiscard]] std::string describe() const;
  bool operator==(const Request&) const = default;
};

// What a back end tells of an operation that runs on without its caller; it ends up in the flight
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

// Whether another rank has died, or somebody has aborted: looked at by a back end's watchdog.
// Calls from any thread, cheap (some loads).
class PeerWatch {
 public:
  PeerWatch() = default;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  virtual ~PeerWatch() = default;

  [[nodiscard]] virtual std::optional<Error> failure() const = 0;
  // Tells the other ranks why this one gives up.
  virtual void report(const Error& error) = 0;
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
  // Where the ranks of this host are, in words; any thread, while the transport is there.
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

// Of nccl/: loads NCCL and CUDA if they are there and starts a communicator among all ranks, which
// all call it at the same point. Error: unsupported, with what is missing.
[[nodiscard]] Result<std::unique_ptr<Transport>> make_nccl_transport(
    const TransportContext& context);

}  // namespace muster::collective
