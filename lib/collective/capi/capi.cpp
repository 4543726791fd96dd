// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/environment.hpp"
#include "collective/capi/capi_impl.hpp"
#include "muster/collective.h"

#include <new>
#include <optional>
#include <string>
#include <utility>

namespace muster::collective {
namespace {

thread_local Error last_error;

int code_of(Errc code) {
  return -static_cast<int>(code);
}

int give(Result<Communicator> made, muster_comm** comm) {
  if (!made) {
    return keep(std::move(made.error()));
  }
  *comm = new muster_comm{std::move(*made)};
  return 0;
}

Buffer buffer_of(const muster_buffer& b) {
  return {b.data, b.count, static_cast<DType>(b.dtype), b.device};
}

Result<Work> run(Communicator& comm, const muster_call& call) {
  const Buffer in = buffer_of(call.in);
  const Buffer out = buffer_of(call.out);
  const auto op = static_cast<Op>(call.op);
  const OpOptions options{.timeout = Duration(call.timeout_ns),
                          .scale = call.scale,
                          .stream = call.stream,
                          .async = call.is_async != 0,
                          .max_wait = Duration(call.max_wait_ns)};
  switch (call.kind) {
    case MUSTER_ALL_REDUCE:
      return comm.all_reduce(in, out, op, options);
    case MUSTER_REDUCE:
      return comm.reduce(in, out, op, call.root, options);
    case MUSTER_BROADCAST:
      return comm.broadcast(out, call.root, options);
    case MUSTER_ALL_GATHER:
      return comm.all_gather(in, out, options);
    case MUSTER_REDUCE_SCATTER:
      return comm.reduce_scatter(in, out, op, options);
    case MUSTER_ALL_TO_ALL:
      return comm.all_to_all(in, out, options);
    case MUSTER_SEND:
      return comm.send(in, call.root, options);
    case MUSTER_RECV:
      return comm.recv(out, call.root, options);
    default:
      return failure(Errc::invalid_argument, "muster_run: unknown operation kind");
  }
}

// Checks enum values from the caller before casting them.
std::optional<Error> wrong_numbers(const muster_call& call) {
  const auto outside = [](int value, int most) { return value < 0 || value > most; };
  if (outside(call.op, MUSTER_PREMUL_SUM) || outside(call.in.dtype, MUSTER_F8E5M2) ||
      outside(call.out.dtype, MUSTER_F8E5M2)) {
    return Error{.code = Errc::invalid_argument, .text = "muster_run: unknown op or dtype"};
  }
  return std::nullopt;
}

int run_call(Communicator& comm, const muster_call& call, muster_work** work) {
  if (auto wrong = wrong_numbers(call)) {
    return keep(std::move(*wrong));
  }
  if (call.kind == MUSTER_BARRIER) {
    auto met = comm.barrier({.timeout = Duration(call.timeout_ns)});
    return met ? 0 : keep(std::move(met.error()));
  }
  auto started = run(comm, call);
  if (!started) {
    return keep(std::move(started.error()));
  }
  if (work != nullptr) {
    // A completed operation needs no handle, unless it failed and its error must still be
    // reported.
    const bool over = started->done() && started->wait().has_value();
    *work = over ? nullptr : new muster_work{std::move(*started)};
    return 0;
  }
  auto done = started->wait();
  return done ? 0 : keep(std::move(done.error()));
}

size_t copy_text(const std::string& from, char* text, size_t n) {
  if (text != nullptr && n > 0) {
    const std::size_t length = std::min(from.size(), n - 1);
    std::memcpy(text, from.data(), length);
    text[length] = '\0';
  }
  return from.size();
}

}  // namespace

CommOptions comm_options_of(const muster_comm_options* given) {
  const muster_comm_options o = taken(given);
  CommOptions out;
  out.name = text_of(o.name, "world");
  out.backend = static_cast<Backend>(o.backend);
  out.timeout = o.timeout_ns > 0 ? Duration(o.timeout_ns) : out.timeout;
  out.init_timeout = o.init_timeout_ns > 0 ? Duration(o.init_timeout_ns) : out.init_timeout;
  out.recorder_folder = text_of(o.recorder_folder);
  out.host = text_of(o.host);
  out.address = text_of(o.address);
  out.port_range = text_of(o.port_range);
  out.arena_bytes = o.arena_bytes > 0 ? o.arena_bytes : out.arena_bytes;
  out.recorder_entries = o.recorder_entries == MUSTER_RECORDER_OFF ? 0
                         : o.recorder_entries > 0                  ? o.recorder_entries
                                                                   : out.recorder_entries;
  return out;
}

int keep(Error error) {
  last_error = std::move(error);
  return code_of(last_error.code);
}

const Error& kept_error() {
  return last_error;
}

}  // namespace muster::collective

using namespace muster::collective;  // NOLINT(google-build-using-namespace): C has none

extern "C" {

int muster_abi_version(void) {
  return MUSTER_ABI_VERSION;
}

int muster_last_error(muster_error* error) {
  const muster_error all{.size = sizeof(muster_error),
                         .code = code_of(last_error.code),
                         .rank = last_error.rank,
                         .native = last_error.native,
                         .epoch = last_error.epoch,
                         .seq = last_error.seq};
  hand_out(all, error);
  return all.code;
}

size_t muster_last_error_text(char* text, size_t n) {
  return copy_text(last_error.text, text, n);
}

const char* muster_error_name(int code) {
  if (code > 0 || code < MUSTER_E_NCCL) {
    return "?";
  }
  return name_of(static_cast<Errc>(-code)).data();  // a literal, hence NUL-terminated
}

int muster_comm_from_env(const muster_comm_options* options, muster_comm** comm) {
  return give(Communicator::from_env(comm_options_of(options)), comm);
}

int muster_comm_create(const muster_bootstrap* bootstrap,
                       const muster_comm_options* options,
                       muster_comm** comm) {
  const muster_bootstrap p = taken(bootstrap);
  const CommOptions o = comm_options_of(options);
  WorkerPlace where;
  where.membership = {p.rank, p.ranks, p.epoch, text_of(p.job, "job")};
  where.store_host = text_of(p.store_host);
  where.store_port = static_cast<std::uint16_t>(p.store_port);
  where.agent_store = true;
  auto store = open_store(where, o.init_timeout);
  if (!store) {
    return keep(std::move(store.error()));
  }
  return give(Communicator::create(std::move(*store), where.membership, o), comm);
}

void muster_comm_destroy(muster_comm* comm) {
  delete comm;
}

int muster_comm_rank(const muster_comm* comm) {
  return comm->comm.rank();
}

int muster_comm_size(const muster_comm* comm) {
  return comm->comm.size();
}

uint64_t muster_comm_epoch(const muster_comm* comm) {
  return comm->comm.epoch();
}

int muster_comm_backend(const muster_comm* comm) {
  return static_cast<int>(comm->comm.backend());
}

int muster_run(muster_comm* comm, const muster_call* call, muster_work** work) {
  if (work != nullptr) {
    *work = nullptr;
  }
  return run_call(comm->comm, taken(call), work);
}

int muster_comm_split(muster_comm* comm, int color, int key, muster_comm** part) {
  auto made = comm->comm.split(color, key);
  if (!made) {
    return keep(std::move(made.error()));
  }
  *part = *made ? new muster_comm{std::move(**made)} : nullptr;
  return 0;
}

int muster_comm_rebuild(
    muster_comm* comm, int rank, int ranks, uint64_t epoch, muster_comm** rebuilt) {
  return give(comm->comm.rebuild({rank, ranks, epoch, comm->comm.job()}), rebuilt);
}

int muster_alloc(muster_comm* comm, size_t bytes, int device, void** memory) {
  auto got = comm->comm.alloc(bytes, device);
  if (!got) {
    return keep(std::move(got.error()));
  }
  *memory = *got;
  return 0;
}

int muster_free(muster_comm* comm, void* memory) {
  return finish(comm->comm.free(memory));
}

void muster_abort(muster_comm* comm, const char* reason) {
  comm->comm.abort(text_of(reason, "no reason given"));
}

int muster_comm_error(const muster_comm* comm) {
  auto error = comm->comm.error();
  return error ? keep(std::move(*error)) : 0;
}

size_t muster_comm_dump(const muster_comm* comm, char* text, size_t n) {
  return copy_text(comm->comm.dump(), text, n);
}

int muster_work_done(const muster_work* work) {
  return work == nullptr || work->work.done() ? 1 : 0;
}

int muster_work_wait(const muster_work* work, int64_t timeout_ns) {
  return finish(work == nullptr ? Result<void>() : work->work.wait(muster::Duration(timeout_ns)));
}

int muster_work_wait_stream(const muster_work* work, void* stream) {
  return finish(work == nullptr ? Result<void>() : work->work.wait_stream(stream));
}

void muster_work_free(muster_work* work) {
  delete work;
}

}  // extern "C"
