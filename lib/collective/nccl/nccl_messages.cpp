// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_messages.hpp"

#include <fmt/format.h>

namespace muster::collective::nccl {
namespace {

std::string_view hint(ncclResult_t result) {
  switch (result) {
    case ncclUnhandledCudaError:
    case ncclSystemError:
      return "Set NCCL_DEBUG=INFO for details";
    case ncclRemoteError:
      return "Find the rank that failed first, then rebuild";
    case ncclInvalidUsage:
      return "Do two ranks share one GPU, or use different NCCL versions?";
    default:
      return "Set NCCL_DEBUG=WARN for details";
  }
}

}  // namespace

std::string describe(const Speaker& speaker) {
  return fmt::format(
      "rank {} of {}, '{}', epoch {}", speaker.rank, speaker.size, speaker.name, speaker.epoch);
}

std::string describe(const NcclLibrary& nccl, const CudaDriver& cuda) {
  return fmt::format("NCCL {} ({}), CUDA driver {}.{}",
                     describe_nccl_version(nccl.version),
                     nccl.path,
                     cuda.version / 1000,
                     cuda.version % 1000 / 10);
}

Error nccl_error(const Speaker& speaker,
                 const Failure& failure,
                 const NcclLibrary& nccl,
                 const CudaDriver& cuda) {
  const char* last = nccl.call.get_last_error(nullptr);
  const std::string reported =
      last == nullptr || *last == '\0' ? "" : fmt::format("; NCCL last reported: {}", last);
  return {.code = failure.result == ncclRemoteError ? Errc::peer_failed : Errc::nccl,
          .epoch = speaker.epoch,
          .seq = failure.seq,
          .native = static_cast<int>(failure.result),
          .text = fmt::format("{}: {} failed: {}{} ({}). {}",
                              describe(speaker),
                              failure.doing,
                              nccl.call.get_error_string(failure.result),
                              reported,
                              describe(nccl, cuda),
                              hint(failure.result))};
}

}  // namespace muster::collective::nccl
