// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_ops.hpp"

#include <cstring>

namespace muster::collective::nccl {
namespace {

bool is_fp8(DType dtype) {
  return dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
}

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

template <class T>
std::array<std::byte, 8> bytes_of(T value) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Every rank sends block j to rank j, in one group, so that all transfers run concurrently.
ncclResult_t exchange_blocks(const Target& target,
                             const Request& request,
                             ncclDataType_t type,
                             ncclComm_t comm) {
  const auto block = request.count * size_of(request.dtype);
  ncclResult_t result = target.nccl.group_start();
  for (int peer = 0; peer < target.size && result == ncclSuccess; ++peer) {
    const auto at = static_cast<std::size_t>(peer) * block;
    const char* in = static_cast<const char*>(request.in) + at;
    char* out = static_cast<char*>(request.out) + at;
    result = target.nccl.send(in, request.count, type, peer, comm, target.stream);
    if (result == ncclSuccess) {
      result = target.nccl.recv(out, request.count, type, peer, comm, target.stream);
    }
  }
  // An opened group must be closed, even after a failure.
  const ncclResult_t ended = target.nccl.group_end();
  return result == ncclSuccess ? ended : result;
}

}  // namespace

std::optional<double> scalar_before_sum(const Request& request, int size) {
  if (!reduces(request.kind) || (size == 1 && request.scale == 1)) {
    return std::nullopt;
  }
  if (request.op == Op::premul_sum) {
    return request.scale;
  }
  if (request.op == Op::avg && request.dtype == DType::f16) {
    return 1.0 / size;
  }
  return std::nullopt;
}

std::uint64_t whole_part_of_one_rank(std::uint64_t count, std::size_t width) {
  constexpr std::size_t kPack = 16;            // bytes per thread and iteration
  constexpr std::size_t kBlock = 16UL * 1024;  // NCCL uses one more thread block for each 16 KiB
  constexpr std::size_t kMostBlocks = 32;
  if (count * width <= kBlock) {
    return count;
  }
  const bool all_blocks = count * width >= kMostBlocks * kBlock;
  return count - count % ((all_blocks ? kMostBlocks * kPack : kBlock) / width);
}

std::array<std::byte, 8> encode_scalar(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::i8:
      return bytes_of(static_cast<std::int8_t>(value));
    case DType::u8:
      return bytes_of(static_cast<std::uint8_t>(value));
    case DType::i32:
      return bytes_of(static_cast<std::int32_t>(value));
    case DType::u32:
      return bytes_of(static_cast<std::uint32_t>(value));
    case DType::i64:
      return bytes_of(static_cast<std::int64_t>(value));
    case DType::u64:
      return bytes_of(static_cast<std::uint64_t>(value));
    case DType::f16:
      return bytes_of(__half_raw(__float2half_rn(narrow)).x);
    case DType::bf16:
      return bytes_of(__nv_bfloat16_raw(__float2bfloat16_rn(narrow)).x);
    case DType::f32:
      return bytes_of(narrow);
    case DType::f64:
      return bytes_of(value);
    case DType::f8e4m3:
      return bytes_of(__nv_cvt_float_to_fp8(narrow, __NV_SATFINITE, __NV_E4M3));
    case DType::f8e5m2:
      return bytes_of(__nv_cvt_float_to_fp8(narrow, __NV_SATFINITE, __NV_E5M2));
  }
  return {};
}

ncclRedOp_t built_in_operator(Op op, int size) {
  switch (size == 1 ? Op::sum : op) {
    case Op::prod:
      return ncclProd;
    case Op::max:
      return ncclMax;
    case Op::min:
      return ncclMin;
    case Op::avg:
      return ncclAvg;
    case Op::sum:
    case Op::premul_sum:
      break;
  }
  return ncclSum;
}

ncclResult_t enqueue(const Target& target,
                     const Request& request,
                     ncclRedOp_t op,
                     ncclComm_t comm) {
  const NcclTable& nccl = target.nccl;
  // NCCL before 2.24 has no fp8; operations that only move data do not need it.
  const auto type =
      is_fp8(request.dtype) && !reduces(request.kind) ? ncclUint8 : nccl_type(request.dtype);
  const auto count = static_cast<std::size_t>(request.count);
  const void* in = request.in;
  void* out = request.out;
  const int root = request.root;
  cudaStream_t stream = target.stream;
  switch (request.kind) {
    case Kind::barrier:
      return nccl.all_reduce(target.scratch, target.scratch, 1, ncclUint8, ncclSum, comm, stream);
    case Kind::all_reduce:
      return nccl.all_reduce(in, out, count, type, op, comm, stream);
    case Kind::reduce:
      return nccl.reduce(in, out, count, type, op, root, comm, stream);
    case Kind::broadcast:
      return nccl.broadcast(out, out, count, type, root, comm, stream);
    case Kind::all_gather:
      return nccl.all_gather(in, out, count, type, comm, stream);
    case Kind::reduce_scatter:
      return nccl.reduce_scatter(in, out, count, type, op, comm, stream);
    case Kind::all_to_all:
      return nccl.all_to_all != nullptr ? nccl.all_to_all(in, out, count, type, comm, stream)
                                        : exchange_blocks(target, request, type, comm);
    case Kind::send:
      return nccl.send(in, count, type, root, comm, stream);
    case Kind::recv:
      return nccl.recv(out, count, type, root, comm, stream);
  }
  return ncclInvalidArgument;
}

std::optional<std::string> cannot_perform(const Request& request,
                                          int size,
                                          const NcclTable& nccl,
                                          bool sums_fp8) {
  if (is_fp8(request.dtype) && reduces(request.kind) && !sums_fp8) {
    return "reducing fp8 requires compute capability 9 (Hopper) and NCCL 2.24 or newer";
  }
  if (request.kind == Kind::all_to_all && request.in == request.out) {
    return "in-place all_to_all is not supported on GPUs";
  }
  if (size == 1 && is_fp8(request.dtype) && scalar_before_sum(request, size)) {
    return "NCCL cannot scale fp8 with a single rank (premul_sum)";
  }
  if (request.op == Op::premul_sum && reduces(request.kind) &&
      (nccl.create_premul_sum == nullptr || nccl.destroy_op == nullptr)) {
    return "this NCCL does not support premul_sum";
  }
  return std::nullopt;
}

}  // namespace muster::collective::nccl
