// SPDX-License-Identifier: Apache-2.0
// Communicator: a group of ranks and the operations among them. All ranks call the same collective
// operations in the same order, with the same op, root, dtype and counts; otherwise all ranks get
// the error mismatch. Resource type: movable, not copyable.
//
// Threads: use it from one thread at a time, except for abort(), error() and Work. A call from a
// second thread kills the communicator with the error aborted.
//
// A call returns when this rank's result is complete (host buffers), or once the operation is
// queued on OpOptions::stream (device buffers). With OpOptions::async, Work reports completion.
// Until then the caller keeps both buffers alive, does not write `in` and does not access `out`.
//
// Errors, from the call or from Work::wait: invalid_argument, unsupported and invalid_state (in a
// forked child) leave the communicator unchanged. After any other error, all calls on all ranks
// fail with the first error, and the contents of `out` are undefined.
#pragma once

#include "collective/error.hpp"
#include "collective/types.hpp"
#include "collective/work.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace muster {
class Store;
class Environ;
}  // namespace muster

namespace muster::collective {

class GradientSupport;
class PeerWatch;

// This rank's number and the group's size. The epoch counts restarts; ranks of different epochs
// never connect to each other.
struct Membership {
  int rank = 0;  // from 0 to size - 1
  int size = 1;
  std::uint64_t epoch = 0;
  std::string job = "job";  // separates jobs that share a store

  bool operator==(const Membership&) const = default;
};

struct CommOptions {
  std::string name = "world";  // equal on all ranks; used in errors and flight records
  Backend backend = Backend::automatic;
  Duration timeout = std::chrono::minutes(10);       // per operation, from when it starts
  Duration init_timeout = std::chrono::seconds(60);  // how long to wait for all ranks
  std::size_t recorder_entries = 2048;               // operations kept; 0 disables the recorder
  // Directory of the flight recorder's file. If empty, the recorder uses memory shared by the ranks
  // on this host.
  std::string recorder_folder;
  // Ranks with the same value share memory. If empty, detected from the machine and its network.
  std::string host;
  // Address at which other hosts reach this rank. If empty, the local address on the route to
  // the store.
  std::string address;
  // "A-B": this rank listens for other ranks on one of these ports. If empty, any free port.
  std::string port_range;
  // Limit on the total of all alloc() calls. This only reserves address space; alloc() allocates
  // the memory.
  std::uint64_t arena_bytes = std::uint64_t{64} << 30;
};

class Communicator {
 public:
  // Reads the variables that muster or torchrun sets: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
  // and, if present, TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_RUN_ID,
  // TORCHELASTIC_USE_AGENT_STORE. If the agent does not serve a store, rank 0 does. Collective:
  // returns when all ranks have called it, or when init_timeout expires. MUSTER_COLLECTIVE_*
  // variables override options (README). Errors: invalid_argument (a variable is missing or
  // malformed), store (unreachable), timeout (names the missing ranks), peer_failed (a rank died
  // during startup), mismatch (different muster versions), system (out of memory or descriptors).
  [[nodiscard]] static Result<Communicator> from_env(CommOptions options = {});
  [[nodiscard]] static Result<Communicator> from_env(const Environ& environ, CommOptions options);
  // With a watch, startup also fails with the error that the watch reports. It may be null.
  [[nodiscard]] static Result<Communicator> create(std::shared_ptr<Store> store,
                                                   const Membership& membership,
                                                   CommOptions options = {},
                                                   const PeerWatch* watch = nullptr);

  // A moved-from communicator may only be assigned to or destroyed.
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  // Waits for operations in progress, but not for other ranks. A rank that is waiting for this rank
  // in an operation then gets peer_failed.
  ~Communicator();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] std::uint64_t epoch() const;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& job() const;
  // The transport for host buffers; never `automatic`.
  [[nodiscard]] Backend backend() const;

  // Counts are in elements; `size` stands for size(). in and out have the same dtype and device.
  // They may be the same memory (in place) but must not overlap in any other way.

  // out[i] = op over in[i] of all ranks, on every rank. in.count == out.count.
  [[nodiscard]] Result<Work> all_reduce(ConstBuffer in, Buffer out, Op op, OpOptions options = {});
  // Like all_reduce, but only `root` receives the result. On other ranks, out is ignored and may be
  // empty.
  [[nodiscard]] Result<Work> reduce(
      ConstBuffer in, Buffer out, Op op, int root, OpOptions options = {});
  // Reads the buffer on `root` and overwrites it on all other ranks.
  [[nodiscard]] Result<Work> broadcast(Buffer buffer, int root, OpOptions options = {});
  // out = in of all ranks, in rank order: out.count == size × in.count. In place: in is this rank's
  // block of out.
  [[nodiscard]] Result<Work> all_gather(ConstBuffer in, Buffer out, OpOptions options = {});
  // Computes block rank() of the all_reduce result: in.count == size × out.count. In place: out is
  // this rank's block of in.
  [[nodiscard]] Result<Work> reduce_scatter(ConstBuffer in,
                                            Buffer out,
                                            Op op,
                                            OpOptions options = {});
  // Block j of in becomes block rank() of out on rank j. in.count == out.count, a multiple of size.
  [[nodiscard]] Result<Work> all_to_all(ConstBuffer in, Buffer out, OpOptions options = {});
  // Point to point: sender and receiver pass the same dtype and count; other ranks are not
  // involved. Messages between a pair of ranks arrive in the order sent. A send may return before
  // the matching receive is called, but programs must not rely on that.
  [[nodiscard]] Result<Work> send(ConstBuffer in, int to, OpOptions options = {});
  [[nodiscard]] Result<Work> recv(Buffer out, int from, OpOptions options = {});
  // Returns when all ranks have called barrier(), and after this rank's earlier async collectives.
  [[nodiscard]] Result<void> barrier(OpOptions options = {});

  // Creates a communicator for the ranks with the same color, ordered by key, then by rank. All
  // ranks must call split(); ranks with a negative color get an empty result. Each new communicator
  // has its own threads and deadlines, and can fail independently of its parent. Errors: the same
  // as from_env, or those of an operation on the parent.
  [[nodiscard]] Result<std::optional<Communicator>> split(int color, int key);
  // After a failure: creates another communicator with the same store and options for the ranks of
  // a new epoch. Collective among those ranks; the old communicator stays dead. Errors: the same
  // as from_env, and invalid_argument for the old communicator's own epoch. May be retried.
  [[nodiscard]] Result<Communicator> rebuild(const Membership& membership) const;

  // Allocates zeroed memory, aligned to 4 KiB, that operations read and write without a copy. Valid
  // until it is freed or the communicator is destroyed. alloc() does not wait for other ranks, but
  // an operation avoids copies only if the buffers of all ranks come from alloc(). So all ranks
  // must call alloc() with the same size in the same order. Errors: unsupported (the total exceeds
  // arena_bytes), system (out of memory, reported by alloc() and not at first use). free() returns
  // invalid_argument for an unknown pointer. When free() is called, no operation may be using the
  // memory.
  [[nodiscard]] Result<void*> alloc(std::size_t bytes, int device = kHost);
  [[nodiscard]] Result<void> free(void* memory);

  // Fails all current and future operations on all ranks with `aborted` and this reason. Calling
  // abort() on one rank is enough; any thread may call it.
  void abort(const std::string& reason);
  // The error that killed this communicator; nullopt while it is usable. Any thread.
  [[nodiscard]] std::optional<Error> error() const;
  // The state of each rank on this host, one line per rank.
  [[nodiscard]] std::string dump() const;

  // Internal interface for GradientSync.
  [[nodiscard]] GradientSupport& gradient_support();

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::collective
