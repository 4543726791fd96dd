// SPDX-License-Identifier: Apache-2.0
#include "nccl/gpu/rank.hpp"

#include "base/clock.hpp"
#include "collective/nccl/nccl_ops.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include <unistd.h>

namespace muster::gpu_check {
namespace {

constexpr Duration kStoreTimeout = std::chrono::seconds(20);

void check(const Rank& rank, std::string_view what, CUresult result) {
  if (result != CUDA_SUCCESS) {
    give_up(rank.driver->error(what, result).text);
  }
}

}  // namespace

void give_up(const std::string& text) {
  fmt::print(stderr, "muster-gpu-check: {}\n", text);
  std::fflush(stdout);
  // The GPU may be stuck, so there is no cleanup.
  _exit(1);
}

void row(const std::string& what, bool figure, const std::string& text) {
  fmt::print("{}\t{}\t{}\n", what, figure ? "info" : "ok", text);
  std::fflush(stdout);
}

Rank::Rank() {
  const auto here = nccl::this_process();
  place = must(collective::worker_place(here.environ));
  driver = must(nccl::load_cuda(nccl::cuda_places(here)));
  library = must(nccl::load_nccl(nccl::nccl_places(here)));
  device = must(nccl::GpuDevice::open(driver, 0));
  over_fakes = here.environ.get("MUSTER_FAKE_CUDA_DEVICES").has_value();
  store = must(collective::open_store(place, kStoreTimeout));
}

nccl::BootstrapContext Rank::context(std::uint64_t epoch, int size) {
  return {store.get(),
          fmt::format("gpu-check/{}/", epoch),
          {"check", rank(), size, epoch},
          "this host",
          kStoreTimeout,
          describe(nccl::NcclOptions{})};
}

Result<std::unique_ptr<nccl::NcclCommunicator>> Rank::join(std::uint64_t epoch,
                                                           int size,
                                                           Duration init_timeout) {
  nccl::NcclOptions options;
  options.init_timeout = init_timeout;
  return nccl::NcclCommunicator::create({library, device, {"check", rank(), size, epoch}, nullptr},
                                        context(epoch, size),
                                        options,
                                        nullptr);
}

Memory::Memory(const Rank& rank, std::size_t bytes) : rank_(rank) {
  const nccl::CurrentDevice current(*rank.device);
  check(rank, "cuMemAlloc", rank.driver->call.mem_alloc(&place_, bytes));
}

Memory::~Memory() {
  const nccl::CurrentDevice current(*rank_.device);
  rank_.driver->call.mem_free(place_);
}

void Memory::upload(const std::vector<std::byte>& bytes) const {
  const nccl::CurrentDevice current(*rank_.device);
  check(rank_, "copy", rank_.driver->call.copy_to_device(place_, bytes.data(), bytes.size()));
  // The copy may still be running in the null stream, which the library's streams do not wait for.
  check(rank_, "copy", rank_.driver->call.stream_synchronize(nullptr));
}

std::vector<std::byte> Memory::download(std::size_t bytes) const {
  const nccl::CurrentDevice current(*rank_.device);
  std::vector<std::byte> out(bytes);
  check(rank_, "copy", rank_.driver->call.copy_from_device(out.data(), place_, bytes));
  return out;
}

std::vector<std::byte> elements(DType dtype,
                                std::size_t count,
                                const std::function<double(std::size_t)>& value) {
  const auto width = static_cast<long>(collective::size_of(dtype));
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto element = nccl::encode_scalar(dtype, value(i));
    bytes.insert(bytes.end(), element.begin(), element.begin() + width);
  }
  return bytes;
}

Request request(Kind kind, DType dtype, std::uint64_t count, Duration timeout) {
  Request made;
  made.kind = kind;
  made.dtype = dtype;
  made.count = count;
  made.device = 0;
  made.root = 0;
  made.seq = 1;
  made.deadline = steady_now() + timeout;
  return made;
}

}  // namespace muster::gpu_check
