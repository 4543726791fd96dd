// SPDX-License-Identifier: Apache-2.0
// Collectives, sends, receives, groups and operators with a scalar.
#include "nccl/fakes/cuda/extra.h"
#include "nccl/fakes/nccl/operation.hpp"
#include "nccl/fakes/violation.hpp"

#include <algorithm>
#include <utility>

using muster::fake::Came;
using muster::fake::Comm;
using muster::fake::comm_at_rest;
using muster::fake::comm_of;
using muster::fake::Inside;
using muster::fake::Operation;
using muster::fake::require;
using muster::fake::start_job;
using muster::fake::What;

namespace {

struct Queued {
  Comm* comm;
  CUstream stream;
  Operation operation;
};

struct Group {
  int depth = 0;
  std::vector<Queued> queued;
};

Group& group() {
  thread_local Group own;
  return own;
}

struct Kernel {
  Comm* comm;
  std::vector<Operation> operations;
};

void kernel_body(void* data) {
  const std::unique_ptr<Kernel> kernel(static_cast<Kernel*>(data));
  run_kernel(*kernel->comm, kernel->operations);
  --kernel->comm->kernels;
  kernel->comm->segment->wake();
}

std::vector<muster_fake_span> spans_of(const Comm& comm, const std::vector<Operation>& operations) {
  std::vector<muster_fake_span> spans;
  for (const auto& operation : operations) {
    if (const auto bytes = bytes_in(operation, comm); bytes > 0) {
      spans.push_back({operation.in, bytes, 0});
    }
    if (const auto bytes = bytes_out(operation, comm); bytes > 0) {
      spans.push_back({operation.out, bytes, 1});
    }
  }
  spans.push_back({nullptr, 0, 0});
  return spans;
}

bool is_transfer(const Operation& operation) {
  return operation.what == What::send || operation.what == What::recv;
}

// The two ranks of a send or receive, and which side this rank is.
struct Side {
  std::atomic<std::uint32_t>& pair;
  std::uint32_t own;

  [[nodiscard]] bool come() const { return (pair & own) != 0; }

  [[nodiscard]] bool complete() const {
    return pair == (muster::fake::kSender | muster::fake::kReceiver);
  }
};

Side side_of(Comm& comm, const Operation& operation) {
  auto& pairs = comm.segment->meeting().connected;
  const auto own = static_cast<std::size_t>(comm.rank);
  const auto peer = static_cast<std::size_t>(operation.root);
  return operation.what == What::send ? Side{pairs[own][peer], muster::fake::kSender}
                                      : Side{pairs[peer][own], muster::fake::kReceiver};
}

bool must_connect(Comm& comm, const std::vector<Operation>& operations) {
  return std::ranges::any_of(operations, [&](const Operation& operation) {
    return is_transfer(operation)
               ? !side_of(comm, operation).come()
               : comm.size > 1 &&
                     !comm.connected.contains(static_cast<std::size_t>(operation.what));
  });
}

// Waits until all ranks have reached their first collective of this kind (in NCCL: of its
// algorithm), or the peers have reached theirs with this rank.
Came connect(Comm& comm, const std::vector<Operation>& operations) {
  std::vector<Side> sides;
  Came came = Came::yes;
  for (const Operation& operation : operations) {
    const auto what = static_cast<std::size_t>(operation.what);
    if (is_transfer(operation)) {
      sides.push_back(side_of(comm, operation));
      sides.back().pair |= sides.back().own;
    } else if (comm.connected.insert(what).second) {
      came = comm.segment->barrier(muster::fake::Where::connection, what);
    }
  }
  comm.segment->wake();
  while (came == Came::yes &&
         !std::ranges::all_of(sides, [](const Side& side) { return side.complete(); })) {
    came = comm.segment->pause();
  }
  return came;
}

// The memory uses of one kernel are not ordered among themselves, and need not be.
ncclResult_t launch(Comm& comm, CUstream stream, std::vector<Operation> operations) {
  const auto spans = spans_of(comm, operations);
  const std::string text = describe(operations.front()) + " of rank " + std::to_string(comm.rank);
  ++comm.kernels;
  auto* kernel = new Kernel{&comm, std::move(operations)};
  muster_fake_launch(stream, text.c_str(), kernel_body, kernel, spans.data());
  if (comm.knobs.in_progress > 0) {
    muster_fake_hold(stream, "an operation of NCCL on it is still in progress");
  }
  comm.polls_left = comm.knobs.in_progress;  // from now on another thread may release the operation
  return comm.knobs.in_progress > 0 ? ncclInProgress : ncclSuccess;
}

// From 2.22 on (NCCL_RUNTIME_CONNECT) ranks connect in the first operation that needs it, in a
// thread of NCCL. The call continues until the other ranks have made theirs.
void connect_and_launch(Comm& comm, CUstream stream, const std::vector<Operation>& operations) {
  const Came came = connect(comm, operations);
  if (came == Came::peer_gone) {
    muster::fake::set_last_error("fake: a rank went away while ranks connected");
    comm.fail(ncclRemoteError);
  }
  if (came != Came::yes) {
    return;
  }
  CUcontext context = nullptr;
  cuDevicePrimaryCtxRetain(&context, comm.device);
  cuCtxPushCurrent(context);
  muster_fake_hold(stream, nullptr);
  launch(comm, stream, operations);
  cuCtxPopCurrent(&context);
  cuDevicePrimaryCtxRelease(comm.device);
}

ncclResult_t begin(Comm& comm, CUstream stream, std::vector<Operation> operations) {
  require(comm.stream == nullptr || comm.stream == stream,
          "the operations of one communicator are queued on two streams");
  comm.stream = stream;
  if (!must_connect(comm, operations)) {
    return launch(comm, stream, std::move(operations));
  }
  muster_fake_hold(stream, "an operation of NCCL on it is still in progress");
  start_job(comm, [&comm, stream, operations = std::move(operations)] {
    connect_and_launch(comm, stream, operations);
  });
  return ncclInProgress;
}

ncclResult_t flush() {
  std::vector<Queued> queued = std::exchange(group().queued, {});
  ncclResult_t result = ncclSuccess;
  while (!queued.empty()) {
    Comm* comm = queued.front().comm;
    CUstream stream = queued.front().stream;
    std::vector<Operation> operations;
    std::erase_if(queued, [&](const Queued& entry) {
      const bool same = entry.comm == comm;
      if (same) {
        require(entry.stream == stream, "one group uses two streams of a communicator");
        operations.push_back(entry.operation);
      }
      return same;
    });
    const Inside inside(comm, "ncclGroupEnd");
    result =
        begin(*comm, stream, std::move(operations)) == ncclInProgress ? ncclInProgress : result;
  }
  return result;
}

void check_type(const Comm& comm, ncclDataType_t type) {
  constexpr int kFirstWithFp8 = 22400;
  require(comm.knobs.version == 0 || comm.knobs.version >= kFirstWithFp8 || type < ncclFloat8e4m3,
          "fp8 is given to a NCCL before 2.24, which does not know it");
}

// The two buffers do not overlap, or one is inside the other where NCCL permits it.
void check_places(const Comm& comm, const Operation& operation) {
  const char* in = static_cast<const char*>(operation.in);
  const char* out = static_cast<const char*>(operation.out);
  const std::size_t read = bytes_in(operation, comm);
  const std::size_t written = bytes_out(operation, comm);
  if (read == 0 || written == 0 || in + read <= out || out + written <= in) {
    return;
  }
  const auto rank = static_cast<std::size_t>(comm.rank);
  const bool in_place = operation.what == What::all_gather       ? in == out + rank * read
                        : operation.what == What::reduce_scatter ? out == in + rank * written
                        : operation.what == What::all_to_all     ? false
                                                                 : in == out;
  require(in_place, "the buffers of an operation overlap, and not as in place");
}

ncclResult_t enqueue(const char* call,
                     Operation operation,
                     ncclComm_t handle,
                     cudaStream_t stream) {
  Comm& comm = comm_at_rest(handle, call);
  require(operation.root < comm.size, "a root or peer that is no rank");
  check_type(comm, operation.type);
  check_places(comm, operation);
  if (const auto scalar = comm.scalars.find(operation.reduction.op); scalar != comm.scalars.end()) {
    require(scalar->second.type == operation.type, "an operator with a scalar of another type");
    operation.reduction = {ncclSum, scalar->second.value, true};
  } else {
    require(operation.reduction.op < ncclNumOps, "an operator that was destroyed, or is another's");
  }
  if (multiplies_on_one_rank(operation, comm) &&
      (operation.type == ncclFloat8e4m3 || operation.type == ncclFloat8e5m2)) {
    return ncclInvalidArgument;
  }
  operation.number = ++comm.operations;
  if (group().depth > 0) {
    group().queued.push_back({&comm, stream, operation});
    return ncclSuccess;
  }
  const Inside inside(&comm, call);
  return begin(comm, stream, {operation});
}

}  // namespace

bool muster::fake::in_group() {
  return group().depth > 0;
}

// NOLINTBEGIN(readability-function-size): the signatures are NCCL's
extern "C" {

ncclResult_t ncclAllReduce(const void* in,
                           void* out,
                           std::size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t op,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue(
      "ncclAllReduce", {What::all_reduce, in, out, count, type, {op, 1}, -1}, comm, stream);
}

ncclResult_t ncclReduce(const void* in,
                        void* out,
                        std::size_t count,
                        ncclDataType_t type,
                        ncclRedOp_t op,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  return enqueue("ncclReduce", {What::reduce, in, out, count, type, {op, 1}, root}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* in,
                           void* out,
                           std::size_t count,
                           ncclDataType_t type,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue("ncclBroadcast", {What::broadcast, in, out, count, type, {}, root}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* in,
                               void* out,
                               std::size_t count,
                               ncclDataType_t type,
                               ncclRedOp_t op,
                               ncclComm_t comm,
                               cudaStream_t stream) {
  return enqueue(
      "ncclReduceScatter", {What::reduce_scatter, in, out, count, type, {op, 1}, -1}, comm, stream);
}

ncclResult_t ncclAllGather(const void* in,
                           void* out,
                           std::size_t count,
                           ncclDataType_t type,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue("ncclAllGather", {What::all_gather, in, out, count, type, {}, -1}, comm, stream);
}

ncclResult_t ncclAlltoAll(const void* in,
                          void* out,
                          std::size_t count,
                          ncclDataType_t type,
                          ncclComm_t comm,
                          cudaStream_t stream) {
  require(in != out, "ncclAlltoAll in place");
  return enqueue("ncclAlltoAll", {What::all_to_all, in, out, count, type, {}, -1}, comm, stream);
}

ncclResult_t ncclSend(const void* in,
                      std::size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue("ncclSend", {What::send, in, nullptr, count, type, {}, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* out,
                      std::size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue("ncclRecv", {What::recv, nullptr, out, count, type, {}, peer}, comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  require(group().depth > 0, "ncclGroupEnd without ncclGroupStart");
  return --group().depth > 0 ? ncclSuccess : flush();
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op,
                                      void* scalar,
                                      ncclDataType_t type,
                                      ncclScalarResidence_t residence,
                                      ncclComm_t handle) {
  Comm& comm = comm_at_rest(handle, "ncclRedOpCreatePreMulSum");
  const Inside inside(&comm, "ncclRedOpCreatePreMulSum");
  require(residence == ncclScalarHostImmediate, "a scalar on the device, which the fake lacks");
  *op = static_cast<ncclRedOp_t>(comm.next_scalar++);
  comm.scalars[*op] = {type, muster::fake::read_scalar(type, scalar)};
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle) {
  Comm& comm = comm_of(handle, "ncclRedOpDestroy");
  const Inside inside(&comm, "ncclRedOpDestroy");
  require(comm.scalars.erase(op) == 1, "an operator is destroyed twice, or is another's");
  return ncclSuccess;
}

}  // extern "C"
// NOLINTEND(readability-function-size)
