// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_check.hpp"

#include "base/clock.hpp"
#include "collective/nccl/nccl_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace muster::collective::nccl {
namespace {

std::string at(const std::vector<char>& all, std::size_t rank) {
  const char* text = all.data() + rank * kTextBytes;
  return {text, strnlen(text, kTextBytes)};
}

}  // namespace

std::array<char, kTextBytes> text_of(const Request& request) {
  std::array<char, kTextBytes> text{};
  request.describe().copy(text.data(), text.size() - 1);
  return text;
}

std::optional<std::string> compare_texts(const std::vector<char>& all) {
  for (std::size_t rank = 1; rank < all.size() / kTextBytes; ++rank) {
    if (at(all, rank) != at(all, 0)) {
      return fmt::format("rank 0 calls {}, rank {} calls {}", at(all, 0), rank, at(all, rank));
    }
  }
  return std::nullopt;
}

Result<void> NcclCommunicator::compare(const Request& request) {
  const CudaTable& cuda = state_->device().cuda();
  const auto own = text_of(request);
  const auto in = reinterpret_cast<CUdeviceptr>(scratch_);
  const auto out = in + kTextBytes;
  Request gather = request;
  gather.kind = Kind::all_gather;
  gather.dtype = DType::u8;
  gather.count = kTextBytes;
  gather.in = scratch_;
  gather.out = reinterpret_cast<void*>(out);
  gather.stream = stream_->get();
  // Use our own stream. The caller may be using the null stream, and we must not synchronize with
  // that stream.
  auto result = cuda.copy_to_device_async(in, own.data(), own.size(), stream_->get());
  if (result != CUDA_SUCCESS) {
    return std::unexpected(state_->device().driver().error("cannot copy to the GPU", result));
  }
  auto work = launch(gather);
  const auto done = work ? (*work)->wait(Duration::zero()) : std::unexpected(work.error());
  if (!done) {
    return done;
  }
  std::vector<char> all(kTextBytes * static_cast<std::size_t>(size()));
  result = cuda.copy_from_device_async(all.data(), out, all.size(), stream_->get());
  if (result == CUDA_SUCCESS) {
    result = cuda.stream_synchronize(stream_->get());
  }
  if (result != CUDA_SUCCESS) {
    return std::unexpected(state_->device().driver().error("cannot copy from the GPU", result));
  }
  if (const auto text = compare_texts(all)) {
    const Speaker& speaker = state_->setup().speaker;
    return std::unexpected(
        state_->kill({.code = Errc::mismatch,
                      .epoch = speaker.epoch,
                      .seq = request.seq,
                      .text = fmt::format(
                          "{}: ranks call different operations: {}", describe(speaker), *text)}));
  }
  return {};
}

}  // namespace muster::collective::nccl
