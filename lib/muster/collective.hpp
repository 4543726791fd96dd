// SPDX-License-Identifier: Apache-2.0
// Communicator: a group of ranks and the operations among them. All ranks call the same collective
// operations in the same order, with the same op, root, dtype and counts. A C++17 wrapper for the C
// interface (collective.h), which documents each operation.
//
// Threads: use a communicator from one thread at a time, except for abort(), error() and Work,
// which any thread may use. With host buffers, a call returns when this rank's result is complete,
// unless OpOptions::async is set. With device buffers, it returns once the operation is queued
// behind OpOptions::stream; a stream waits for the result only after Work::wait_stream().
// invalid_argument and unsupported leave the communicator unchanged. After any other error it is
// dead on all ranks until rebuild().
#pragma once

#include "muster/collective_types.hpp"
#include "muster/result.hpp"
#include "muster/work.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace muster {
inline namespace v1 {

class Communicator {
 public:
  // Reads the variables that muster or torchrun sets (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
  // …). Collective: returns when all ranks have called it. Errors: invalid_argument, store,
  // timeout (names the missing ranks), peer_failed, mismatch, system.
  [[nodiscard]] static Result<Communicator> from_env(const CommOptions& options = {}) {
    const muster_comm_options o = detail::in_c(options);
    muster_comm* made = nullptr;
    const int code = muster_comm_from_env(&o, &made);
    return given(code, made);
  }

  [[nodiscard]] static Result<Communicator> create(const Bootstrap& where,
                                                   const CommOptions& options = {}) {
    const muster_comm_options o = detail::in_c(options);
    muster_bootstrap b{};
    b.size = sizeof(b);
    b.store_host = where.store_host.c_str();
    b.store_port = where.store_port;
    b.rank = where.rank;
    b.ranks = where.size;
    b.epoch = where.epoch;
    b.job = where.job.c_str();
    muster_comm* made = nullptr;
    const int code = muster_comm_create(&b, &o, &made);
    return given(code, made);
  }

  // For a handle that its owner destroys, such as the argument of a muster_train_function.
  [[nodiscard]] static Communicator borrow(muster_comm* comm) { return Communicator(comm, true); }

  [[nodiscard]] int rank() const { return muster_comm_rank(get()); }

  [[nodiscard]] int size() const { return muster_comm_size(get()); }

  [[nodiscard]] std::uint64_t epoch() const { return muster_comm_epoch(get()); }

  // The transport for host buffers; never `automatic`.
  [[nodiscard]] Backend backend() const { return static_cast<Backend>(muster_comm_backend(get())); }

  // in and out have the same dtype and device. They may be the same memory but must not overlap in
  // any other way. For semantics and counts see muster_call in collective_types.h.

  Result<Work> all_reduce(ConstBuffer in, Buffer out, Op op, const OpOptions& options = {}) {
    return run({MUSTER_ALL_REDUCE, op, 0}, in, out, options);
  }

  // The buffer is both input and output.
  Result<Work> all_reduce(Buffer buffer, Op op, const OpOptions& options = {}) {
    return all_reduce(buffer, buffer, op, options);
  }

  Result<Work> reduce(ConstBuffer in, Buffer out, Op op, int root, const OpOptions& options = {}) {
    return run({MUSTER_REDUCE, op, root}, in, out, options);
  }

  Result<Work> broadcast(Buffer buffer, int root, const OpOptions& options = {}) {
    return run({MUSTER_BROADCAST, Op::sum, root}, buffer, buffer, options);
  }

  Result<Work> all_gather(ConstBuffer in, Buffer out, const OpOptions& options = {}) {
    return run({MUSTER_ALL_GATHER, Op::sum, 0}, in, out, options);
  }

  Result<Work> reduce_scatter(ConstBuffer in, Buffer out, Op op, const OpOptions& options = {}) {
    return run({MUSTER_REDUCE_SCATTER, op, 0}, in, out, options);
  }

  Result<Work> all_to_all(ConstBuffer in, Buffer out, const OpOptions& options = {}) {
    return run({MUSTER_ALL_TO_ALL, Op::sum, 0}, in, out, options);
  }

  Result<Work> send(ConstBuffer in, int to, const OpOptions& options = {}) {
    return run({MUSTER_SEND, Op::sum, to}, in, Buffer(nullptr, 0, in.dtype, in.device), options);
  }

  Result<Work> recv(Buffer out, int from, const OpOptions& options = {}) {
    const ConstBuffer none(nullptr, 0, out.dtype, out.device);
    return run({MUSTER_RECV, Op::sum, from}, none, out, options);
  }

  Result<void> barrier(const OpOptions& options = {}) {
    const muster_call call = detail::call_of(MUSTER_BARRIER, options);
    return detail::result_of(muster_run(get(), &call, nullptr));
  }

  // Creates a communicator for the ranks with the same color, ordered by key, then by rank. Empty
  // if color is negative. Collective.
  [[nodiscard]] Result<std::optional<Communicator>> split(int color, int key) {
    muster_comm* part = nullptr;
    if (muster_comm_split(get(), color, key, &part) != 0) {
      return detail::last_error();
    }
    return part == nullptr ? std::optional<Communicator>() : Communicator(part);
  }

  // After a failure: creates a communicator over the same store with another epoch. Collective
  // among the ranks of the new communicator.
  [[nodiscard]] Result<Communicator> rebuild(int rank, int size, std::uint64_t epoch) {
    muster_comm* made = nullptr;
    const int code = muster_comm_rebuild(get(), rank, size, epoch, &made);
    return given(code, made);
  }

  // Zeroed memory that operations read and write without a copy. Valid until it is freed or the
  // communicator is destroyed. All ranks must call alloc() with the same size, in the same order.
  [[nodiscard]] Result<void*> alloc(std::size_t bytes, int device = kHost) {
    void* memory = nullptr;
    if (muster_alloc(get(), bytes, device, &memory) != 0) {
      return detail::last_error();
    }
    return memory;
  }

  Result<void> free(void* memory) { return detail::result_of(muster_free(get(), memory)); }

  // Fails all current and future operations on all ranks. Calling abort() on one rank is enough;
  // any thread may call it.
  void abort(const std::string& reason) { muster_abort(get(), reason.c_str()); }

  // The error that killed this communicator; empty while it is usable. Any thread.
  [[nodiscard]] std::optional<Error> error() const {
    return muster_comm_error(get()) == 0 ? std::optional<Error>() : detail::last_error();
  }

  [[nodiscard]] muster_comm* get() const { return comm_.get(); }

 private:
  struct Destroy {
    bool is_borrowed = false;

    void operator()(muster_comm* comm) const {
      if (!is_borrowed) {
        muster_comm_destroy(comm);
      }
    }
  };

  explicit Communicator(muster_comm* comm, bool is_borrowed = false)
      : comm_(comm, Destroy{is_borrowed}) {}

  static Result<Communicator> given(int code, muster_comm* made) {
    return code == 0 ? Result<Communicator>(Communicator(made))
                     : Result<Communicator>(detail::last_error());
  }

  struct Shape {
    std::int32_t kind = MUSTER_BARRIER;
    Op op = Op::sum;
    int root = 0;
  };

  Result<Work> run(Shape shape,
                   const ConstBuffer& in,
                   const Buffer& out,
                   const OpOptions& options) {
    muster_call call = detail::call_of(shape.kind, options);
    call.op = static_cast<std::int32_t>(shape.op);
    call.root = shape.root;
    call.in = detail::in_c(in);
    call.out = detail::in_c(out);
    muster_work* work = nullptr;
    if (muster_run(get(), &call, &work) != 0) {
      return detail::last_error();
    }
    return Work(work);
  }

  std::unique_ptr<muster_comm, Destroy> comm_;
};

}  // namespace v1
}  // namespace muster
