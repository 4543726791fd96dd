// SPDX-License-Identifier: Apache-2.0
// Communicator: the ranks that compute together, and the operations among them. All ranks call the
// same operations in the same order with the same counts and types; a rank that does not is told
// so (mismatch). Calls come from one thread at a time, abort() and error() from any. Host buffers:
// a call returns when the result is there, unless OpOptions::async. Device buffers: a call returns
// once the operation is queued on the stream. Resource type: movable, not copyable.
//
// Errors of operations, at the call or at Work::wait: invalid_argument (shapes, types, ranks,
// overlaps) and unsupported leave the communicator as it was. peer_failed, timeout, mismatch,
// aborted, system, cuda and nccl end it: from then on every call fails with the first of them, on
// all ranks. invalid_state: called in a forked child.
#pragma once

#include "collective/error.hpp"
#include "collective/export.hpp"
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

// Who we are among whom. The epoch counts restarts: ranks of different epochs never meet.
struct Membership {
  int rank = 0;
  int size = 1;
  std::uint64_t epoch = 0;
  std::string job = "job";  // keeps apart what shares one store

  bool operator==(const Membership&) const = default;
};

struct CommOptions {
  std::string name = "world";
  Backend backend = Backend::automatic;
  Duration timeout = std::chrono::minutes(10);       // of an operation
  Duration init_timeout = std::chrono::seconds(60);  // for all ranks to come
  std::size_t recorder_entries = 2048;
  // Where the flight recorder's file lies; empty: in memory of the ranks of this host.
  std::string recorder_folder;
  // Ranks with the same word share memory; empty: found out (the machine and its network).
  std::string host;
  // Address that other hosts reach us by; empty: the one that the store is reached from.
  std::string address;
  std::uint64_t arena_bytes = std::uint64_t{64} << 30;  // most that alloc() gives, address space
};

class MUSTER_COLLECTIVE_API Communicator {
 public:
  // From what muster or torchrun sets: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, where they
  // are, TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_RUN_ID, TORCHELASTIC_USE_AGENT_STORE. Without
  // an agent's store rank 0 must serve one. Returns when all ranks have come. MUSTER_COLLECTIVE_*
  // variables override options (README). Errors: invalid_argument (a variable is missing or none),
  // store (it cannot be reached), timeout (who has not come), peer_failed (who died meanwhile),
  // mismatch (another version of muster), system (no memory, no descriptors).
  [[nodiscard]] static Result<Communicator> from_env(CommOptions options = {});
  [[nodiscard]] static Result<Communicator> from_env(const Environ& environ, CommOptions options);
  [[nodiscard]] static Result<Communicator> create(std::shared_ptr<Store> store,
                                                   const Membership& membership,
                                                   CommOptions options = {});

  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  // Leaves in order; an operation under way is waited for.
  ~Communicator();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] std::uint64_t epoch() const;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& job() const;
  // What host buffers travel by.
  [[nodiscard]] Backend backend() const;

  // in and out have the same count; they may be the same memory, but not overlap otherwise.
  [[nodiscard]] Result<Work> all_reduce(ConstBuffer in, Buffer out, Op op, OpOptions options = {});
  // The result on `root` only; out of the others is not looked at.
  [[nodiscard]] Result<Work> reduce(
      ConstBuffer in, Buffer out, Op op, int root, OpOptions options = {});
  [[nodiscard]] Result<Work> broadcast(Buffer buffer, int root, OpOptions options = {});
  // out.count == size × in.count, in the order of ranks.
  [[nodiscard]] Result<Work> all_gather(ConstBuffer in, Buffer out, OpOptions options = {});
  // in.count == size × out.count.
  [[nodiscard]] Result<Work> reduce_scatter(ConstBuffer in,
                                            Buffer out,
                                            Op op,
                                            OpOptions options = {});
  // Block j of in becomes block rank() of out on rank j; both counts are multiples of size.
  [[nodiscard]] Result<Work> all_to_all(ConstBuffer in, Buffer out, OpOptions options = {});
  // Between two ranks, in order per pair, of equal counts; the others do not take part.
  [[nodiscard]] Result<Work> send(ConstBuffer in, int to, OpOptions options = {});
  [[nodiscard]] Result<Work> recv(Buffer out, int from, OpOptions options = {});
  [[nodiscard]] Result<void> barrier(OpOptions options = {});

  // Ranks that give the same colour, ordered by key, then by rank. Called by all ranks; those with
  // a negative colour get none. The parts have threads and deadlines of their own, and end without
  // the whole; errors as from_env, or of an operation of the whole.
  [[nodiscard]] Result<std::optional<Communicator>> split(int color, int key);
  // After a failure: the same store and options, with the ranks of the new epoch, whose number must
  // differ. Errors as from_env; can be tried again.
  [[nodiscard]] Result<Communicator> rebuild(const Membership& membership) const;

  // Memory that operations read and write without a copy, zeroed, aligned to 4 KiB. Called by all
  // ranks alike to be of use; usable as any memory until freed or until the communicator ends.
  // unsupported: more than arena_bytes in all; system: the host has no such memory, which is asked
  // for here and not at the first use; free: invalid_argument for what is not from alloc.
  [[nodiscard]] Result<void*> alloc(std::size_t bytes, int device = kHost);
  [[nodiscard]] Result<void> free(void* memory);

  // Ends every operation of all ranks, now and later, with `aborted` and this reason.
  void abort(const std::string& reason);
  // Why this communicator is dead, if it is.
  [[nodiscard]] std::optional<Error> error() const;
  // One line per rank of this host: where it is.
  [[nodiscard]] std::string dump() const;

 private:
  friend class GradientSync;  // works on memory of devices
  class MUSTER_COLLECTIVE_HIDDEN Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::collective
