// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_communicator.hpp"

#include "base/clock.hpp"
#include "collective/nccl/nccl_check.hpp"
#include "collective/nccl/nccl_ops.hpp"
#include "collective/nccl/planted.hpp"

#include <fmt/format.h>

#include <utility>

namespace muster::collective::nccl {
namespace {

// How long to wait for the other ranks to leave too. After that, this rank leaves without them.
constexpr Duration kLeaveTimeout = std::chrono::seconds(10);

ncclConfig_t non_blocking(const std::string& name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = planted("blocking communicator") ? 1 : 0;
  config.commName = name.c_str();
  return config;
}

}  // namespace

std::string describe(const NcclOptions& options) {
  return fmt::format("MUSTER_COLLECTIVE_NCCL_CHECK {}, MUSTER_COLLECTIVE_NCCL_REGISTER {}",
                     options.check_calls ? "on" : "off",
                     options.register_buffers ? "on" : "off");
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclState> state,
                                   NcclOptions options,
                                   Progress* progress)
    : state_(std::move(state)), options_(options), progress_(progress) {}

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::create(Setup setup,
                                                                   BootstrapContext context,
                                                                   NcclOptions options,
                                                                   Progress* progress) {
  const TimePoint deadline = steady_now() + options.init_timeout;
  context.timeout = options.init_timeout;
  context.settings = describe(options);
  const auto id = agree_on_id(context, *setup.nccl);
  MUSTER_RETURN_IF_ERROR(id);
  auto state = std::make_shared<NcclState>(std::move(setup));
  // NCCL does not copy the name and may still be starting after our timeout. So the name is stored
  // in the state, which outlives the abort.
  const Speaker& speaker = state->setup().speaker;
  const auto started = state->run({.name = "ncclCommInitRankConfig",
                                   .request = nullptr,
                                   .deadline = deadline,
                                   .body = [&](ncclComm_t /*none*/) {
                                     ncclComm_t comm = nullptr;
                                     ncclConfig_t config = non_blocking(speaker.name);
                                     const auto result = state->nccl().init_rank(
                                         &comm, speaker.size, *id, speaker.rank, &config);
                                     state->adopt(comm);
                                     return result;
                                   }});
  MUSTER_RETURN_IF_ERROR(started);
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(state), options, progress));
  if (auto prepared = made->prepare(); !prepared) {
    return std::unexpected(made->state_->kill(prepared.error()));
  }
  return made;
}

Result<void> NcclCommunicator::prepare() {
  const std::shared_ptr<GpuDevice>& device = state_->setup().device;
  const CurrentDevice current(*device);
  auto stream = GpuStream::create(device);
  MUSTER_RETURN_IF_ERROR(stream);
  stream_ = *std::move(stream);
  events_ = std::make_shared<EventPool>(device);
  // Used by the barrier, and by nccl_check to exchange the texts of all ranks.
  const std::size_t bytes = kTextBytes * static_cast<std::size_t>(1 + size());
  CUdeviceptr scratch = 0;
  if (const auto result = device->cuda().mem_alloc(&scratch, bytes); result != CUDA_SUCCESS) {
    return std::unexpected(device->driver().error("cuMemAlloc", result));
  }
  scratch_ = reinterpret_cast<void*>(scratch);
  watchdog_ = std::make_unique<NcclWatchdog>(state_, progress_);
  return {};
}

NcclCommunicator::~NcclCommunicator() {
  if (watchdog_ && !state_->dead()) {
    watchdog_->drain();
  }
  watchdog_.reset();
  leave();
  if (state_->dead()) {
    state_->wait_for_abort();
  }
  const CurrentDevice current(state_->device());
  for (const auto& [memory, how] : std::exchange(memory_, {})) {
    static_cast<void>(release(memory, how));
  }
  if (scratch_ != nullptr) {
    state_->device().cuda().mem_free(reinterpret_cast<CUdeviceptr>(scratch_));
  }
}

void NcclCommunicator::leave() {
  if (state_->dead()) {
    return;
  }
  for (auto& [memory, how] : memory_) {
    if (how.registration != nullptr && !planted("registration is kept")) {
      static_cast<void>(state_->run({.name = "ncclCommDeregister",
                                     .request = nullptr,
                                     .deadline = steady_now() + kLeaveTimeout,
                                     .body = [&, registration = how.registration](ncclComm_t comm) {
                                       return state_->nccl().comm_deregister(comm, registration);
                                     }}));
      how.registration = nullptr;
    }
  }
  const Result<void> finalized = planted("no finalize")
                                     ? Result<void>()
                                     : state_->run({.name = "ncclCommFinalize",
                                                    .request = nullptr,
                                                    .deadline = steady_now() + kLeaveTimeout,
                                                    .body = [this](ncclComm_t comm) {
                                                      return state_->nccl().finalize(comm);
                                                    }});
  // If finalize failed, the abort has already started.
  if (finalized) {
    static_cast<void>(state_->destroy());
    state_->retire();
  }
}

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::split(int color, int key) {
  // NCCL requires that no operation is in progress during a split.
  if (!planted("split does not wait")) {
    watchdog_->drain();
  }
  // NCCL stores the child from its own thread, possibly after our timeout.
  auto child = std::make_shared<ncclComm_t>(nullptr);
  state_->keep(child);
  const int nccl_color = color < 0 ? NCCL_SPLIT_NOCOLOR : color;
  ncclConfig_t config = non_blocking(state_->setup().speaker.name);
  const auto done =
      state_->run({.name = "ncclCommSplit",
                   .request = nullptr,
                   .deadline = steady_now() + options_.init_timeout,
                   .body = [&](ncclComm_t comm) {
                     // ncclCommSplit returns success while still in progress (NCCL 2.28 source).
                     // Only the parent's state shows whether it has finished.
                     auto result =
                         state_->nccl().split(comm, nccl_color, key, child.get(), &config);
                     if (result != ncclSuccess || planted("split is not polled")) {
                       return result;
                     }
                     const ncclComm_t asked = planted("split polls the child") ? *child : comm;
                     const auto answered = state_->nccl().get_async_error(asked, &result);
                     return answered == ncclSuccess ? result : answered;
                   }});
  MUSTER_RETURN_IF_ERROR(done);
  if (*child == nullptr) {
    return nullptr;
  }
  Setup setup = state_->setup();
  auto state = std::make_shared<NcclState>(setup, *child);
  setup.speaker.name += fmt::format("/{}", color);
  const auto asked = state->run(
      {.name = "ncclCommCount",
       .request = nullptr,
       .deadline = steady_now() + options_.init_timeout,
       .body = [&](ncclComm_t comm) {
         const auto result = state->nccl().count(comm, &setup.speaker.size);
         return result == ncclSuccess ? state->nccl().user_rank(comm, &setup.speaker.rank) : result;
       }});
  MUSTER_RETURN_IF_ERROR(asked);
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(
      std::make_shared<NcclState>(std::move(setup), *child), options_, progress_));
  made->state_->keep(state_);  // the parent's state owns the name
  if (auto prepared = made->prepare(); !prepared) {
    return std::unexpected(made->state_->kill(prepared.error()));
  }
  return made;
}

// The events of an operation in a graph can never be queried, so we would never see it complete or
// fail.
Result<void> NcclCommunicator::refuse_captured(const Request& request) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const auto result =
      state_->device().cuda().stream_is_capturing(static_cast<CUstream>(request.stream), &status);
  if (result != CUDA_SUCCESS) {
    return std::unexpected(state_->device().driver().error(
        fmt::format("{}: cannot use the stream", request.describe()), result));
  }
  if (status != CU_STREAM_CAPTURE_STATUS_NONE && !planted("captured streams are used")) {
    return failure(
        Errc::unsupported,
        fmt::format("{}: the stream is capturing a CUDA graph, which cannot contain operations "
                    "of this library. Keep them out of the graph",
                    request.describe()));
  }
  return {};
}

Result<void> NcclCommunicator::refuse(const Request& request) const {
  const int device = state_->device().ordinal();
  if (request.kind != Kind::barrier && request.device != device) {
    return failure(Errc::invalid_argument,
                   fmt::format("{}: the buffer is on device {}, the communicator on {}",
                               request.describe(),
                               request.device,
                               state_->device().description()));
  }
  const bool sums_fp8 = state_->device().sums_fp8() && state_->setup().nccl->has_fp8();
  if (auto text = cannot_perform(request, size(), state_->nccl(), sums_fp8)) {
    return failure(Errc::unsupported, fmt::format("{}: {}", request.describe(), *text));
  }
  const CurrentDevice current(state_->device());
  return refuse_captured(request);
}

Result<std::shared_ptr<Pending>> NcclCommunicator::start(const Request& request) {
  if (auto error = state_->dead()) {
    state_->wait_for_abort();
    return std::unexpected(*std::move(error));
  }
  const CurrentDevice current(state_->device());
  Result<void> agreed;
  if (options_.check_calls && !is_transfer(request.kind)) {
    agreed = compare(request);
  }
  auto operation = agreed ? launch(request) : std::unexpected(agreed.error());
  if (!operation && state_->dead()) {
    state_->wait_for_abort();
  }
  return operation;
}

Result<std::shared_ptr<NcclPending>> NcclCommunicator::launch(const Request& request) {
  const TimePoint now = steady_now();
  auto operation =
      std::make_shared<NcclPending>(state_, request, OperationClock(now, request.deadline - now));
  MUSTER_RETURN_IF_ERROR(queue(request, *operation));
  state_->newest(operation);
  watchdog_->watch(operation);
  return operation;
}

Result<void> NcclCommunicator::queue(const Request& request, NcclPending& operation) {
  auto ready = events_->take();
  auto end = events_->take();
  if (!ready || !end) {
    return std::unexpected(!ready ? ready.error() : end.error());
  }
  operation.ready = *std::move(ready);
  operation.end = *std::move(end);
  // The operation must run after the work that the caller has queued so far.
  Result<void> done = operation.ready.record(static_cast<CUstream>(request.stream));
  if (done && !planted("no wait for the caller's stream")) {
    done = operation.ready.hold(stream_->get());
  }
  if (done && planted("end is recorded too early")) {
    done = operation.end.record(stream_->get());
  }
  if (done) {
    done = call(request);
  }
  if (done && !planted("end is recorded too early")) {
    done = operation.end.record(stream_->get());
  }
  return done;
}

Result<void> NcclCommunicator::call(const Request& request) {
  if (const auto scalar = scalar_before_sum(request, size())) {
    return reduce_with_scalar(request, *scalar);
  }
  const Target target{state_->nccl(), rank(), size(), stream_->get(), scratch_};
  return state_->run({.name = "NCCL",
                      .request = &request,
                      .deadline = request.deadline,
                      .body = [&](ncclComm_t comm) {
                        return enqueue(
                            target, request, built_in_operator(request.op, size()), comm);
                      }});
}

Result<void> NcclCommunicator::reduce_with_scalar(const Request& request, double scalar) {
  auto bytes = encode_scalar(request.dtype, scalar);
  ncclRedOp_t op = ncclSum;
  Call step{.name = "ncclRedOpCreatePreMulSum",
            .request = &request,
            .deadline = request.deadline,
            .body = {}};
  step.body = [&](ncclComm_t comm) {
    return state_->nccl().create_premul_sum(
        &op, bytes.data(), nccl_type(request.dtype), ncclScalarHostImmediate, comm);
  };
  auto done = state_->run(step);
  if (!done) {
    return done;
  }
  done = reduce_with_operator(request, op);
  if (!done || planted("operator is kept")) {
    return done;
  }
  step.name = "ncclRedOpDestroy";
  step.body = [&](ncclComm_t comm) { return state_->nccl().destroy_op(op, comm); };
  return state_->run(step);
}

// Makes a single NCCL call. In a communicator with one rank, makes as many calls as NCCL needs to
// process every element.
Result<void> NcclCommunicator::reduce_with_operator(const Request& request, ncclRedOp_t op) {
  const Target target{state_->nccl(), rank(), size(), stream_->get(), scratch_};
  const std::size_t width = size_of(request.dtype);
  Request part = request;
  Result<void> done;
  for (std::uint64_t left = request.count; left > 0 && done; left -= part.count) {
    part.count = size() > 1 ? left : whole_part_of_one_rank(left, width);
    const std::size_t at = (request.count - left) * width;
    part.in = static_cast<const char*>(request.in) + at;
    part.out = static_cast<char*>(request.out) + at;
    done = state_->run({.name = "NCCL",
                        .request = &request,
                        .deadline = request.deadline,
                        .body = [&](ncclComm_t comm) { return enqueue(target, part, op, comm); }});
  }
  return done;
}

void NcclCommunicator::abort(const Error& why) {
  static_cast<void>(state_->kill(why));
}

}  // namespace muster::collective::nccl
