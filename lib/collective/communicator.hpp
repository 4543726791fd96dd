// SPDX-License-Identifier: Apache-2.0
// Communicator: the ranks that compute together, and the operations among them. All ranks call the
// same collective operations in the same order, with the same op, root, dtype and counts; where
// they differ, they get mismatch. Resource type: movable, not copyable.
//
// Threads: one at a time, a second one ends it with aborted; abort(), error() and Work from any.
//
// When a call returns: host buffers, when this rank's result is complete, unless OpOptions::async
// (then Work says when). Device buffers, once the operation is queued on OpOptions::stream. Until
// then the caller keeps both buffers alive, does not write `in` and does not touch `out`.
//
// Errors of operations, at the call or at Work::wait: invalid_argument (shapes, types, ranks,
// overlaps) and unsupported leave the communicator as it was. peer_failed, timeout, mismatch,
// aborted, system, cuda and nccl end it: from then on every call fails with the first of them, on
// all ranks; `out` then holds anything. invalid_state: called in a forked child.
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

// Who this rank is among how many. The epoch counts restarts: ranks of different epochs never meet.
struct Membership {
  int rank = 0;  // from 0 to size - 1
  int size = 1;
  std::uint64_t epoch = 0;
  std::string job = "job";  // keeps apart what shares one store

  bool operator==(const Membership&) const = default;
};

struct CommOptions {
  std::string name = "world";  // the same on all ranks; in errors and records
  Backend backend = Backend::automatic;
  Duration timeout = std::chrono::minutes(10);       // of an operation, from its turn on
  Duration init_timeout = std::chrono::seconds(60);  // for all ranks to arrive
  std::size_t recorder_entries = 2048;               // operations; 0: nothing is recorded
  // Where the flight recorder's file lies; empty: in memory of the ranks of this host.
  std::string recorder_folder;
  // Ranks with the same text share memory; empty: found out (the machine and its network).
  std::string host;
  // Address that other hosts reach us by; empty: the one that the store is reached from.
  std::string address;
  // "A-B": this rank listens for others on one of these ports; empty: on any.
  std::string port_range;
  // Most that alloc() gives in all. It is address space: memory is taken by alloc() only.
  std::uint64_t arena_bytes = std::uint64_t{64} << 30;
};

class Communicator {
 public:
  // From what muster or torchrun sets: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, where they
  // are, TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_RUN_ID, TORCHELASTIC_USE_AGENT_STORE. Without
  // an agent's store rank 0 serves one. Collective: returns when all ranks have called it, at most
  // after init_timeout. MUSTER_COLLECTIVE_* variables override options (README). Errors:
  // invalid_argument (a variable is missing or malformed), store (it cannot be reached), timeout
  // (names who has not arrived), peer_failed (who died meanwhile), mismatch (another version of
  // muster), system (no memory, no descriptors).
  [[nodiscard]] static Result<Communicator> from_env(CommOptions options = {});
  [[nodiscard]] static Result<Communicator> from_env(const Environ& environ, CommOptions options);
  [[nodiscard]] static Result<Communicator> create(std::shared_ptr<Store> store,
                                                   const Membership& membership,
                                                   CommOptions options = {});

  // A moved-from communicator may only be assigned to or destroyed.
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  // Leaves in order: operations under way are waited for, other ranks are not. A rank that waits
  // for this one in an operation then gets peer_failed.
  ~Communicator();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] std::uint64_t epoch() const;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& job() const;
  // What moves host buffers; never automatic.
  [[nodiscard]] Backend backend() const;

  // Counts are in elements, size is size(). in and out have the same dtype and device. They may be
  // the same memory (in place), but not overlap otherwise.

  // out[i] = op over in[i] of all ranks, on every rank. Equal counts.
  [[nodiscard]] Result<Work> all_reduce(ConstBuffer in, Buffer out, Op op, OpOptions options = {});
  // The same on `root` only; out of the others is not looked at and may be empty.
  [[nodiscard]] Result<Work> reduce(
      ConstBuffer in, Buffer out, Op op, int root, OpOptions options = {});
  // Read on `root`, overwritten with root's elements on all others.
  [[nodiscard]] Result<Work> broadcast(Buffer buffer, int root, OpOptions options = {});
  // out = in of all ranks, in the order of ranks: out.count == size × in.count. In place: in is
  // this rank's block of out.
  [[nodiscard]] Result<Work> all_gather(ConstBuffer in, Buffer out, OpOptions options = {});
  // Block rank() of what all_reduce would give: in.count == size × out.count. In place: out is this
  // rank's block of in.
  [[nodiscard]] Result<Work> reduce_scatter(ConstBuffer in,
                                            Buffer out,
                                            Op op,
                                            OpOptions options = {});
  // Block j of in becomes block rank() of out on rank j. Equal counts, multiples of size.
  [[nodiscard]] Result<Work> all_to_all(ConstBuffer in, Buffer out, OpOptions options = {});
  // Between two ranks, which call them with the same dtype and count; the others do not take part.
  // Messages of a pair arrive in the order in which they were sent. A send may return before its
  // receive was called, and need not.
  [[nodiscard]] Result<Work> send(ConstBuffer in, int to, OpOptions options = {});
  [[nodiscard]] Result<Work> recv(Buffer out, int from, OpOptions options = {});
  // Returns when all ranks have called it; also waits for this rank's async collectives before it.
  [[nodiscard]] Result<void> barrier(OpOptions options = {});

  // A communicator for the ranks that give the same colour, ordered by key, then by rank.
  // Collective: called by all ranks; those with a negative colour get none. The parts have threads
  // and deadlines of their own, and end without the whole; errors as from_env, or of an operation
  // of the whole.
  [[nodiscard]] Result<std::optional<Communicator>> split(int color, int key);
  // After a failure: another communicator over the same store and options, for the ranks of a new
  // epoch. Collective among these. This one stays dead. Errors as from_env, and invalid_argument
  // for the epoch of this one; can be tried again.
  [[nodiscard]] Result<Communicator> rebuild(const Membership& membership) const;

  // Memory that operations read and write without a copy, zeroed, aligned to 4 KiB; valid until it
  // is freed or the communicator ends. Collective in effect: no rank waits here, but an operation
  // is without copies only where the buffers of all ranks are from alloc. So all ranks call it,
  // with the same size and in the same order. Errors: unsupported (more than arena_bytes in all),
  // system (the host has no such memory: it is taken here, not at the first use). free:
  // invalid_argument for what alloc did not return. No operation on the memory may be under way.
  [[nodiscard]] Result<void*> alloc(std::size_t bytes, int device = kHost);
  [[nodiscard]] Result<void> free(void* memory);

  // Ends every operation of all ranks, now and later, with `aborted` and this reason. Any thread;
  // not collective: one rank is enough.
  void abort(const std::string& reason);
  // Why this communicator is dead; nullopt while it lives. Any thread.
  [[nodiscard]] std::optional<Error> error() const;
  // One line per rank of this host: where it is.
  [[nodiscard]] std::string dump() const;

  // For GradientSync, and of no use to others: what it needs beside operations.
  [[nodiscard]] GradientSupport& gradient_support();

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::collective
