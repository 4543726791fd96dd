// SPDX-License-Identifier: Apache-2.0
#include "python/muster/torch/native/backend.hpp"

#include <ATen/record_function.h>

namespace muster::torch_backend {

using c10d::OpType;

namespace {

// Small operations wait inline even if CPUs are idle, because waking a thread takes longer than the
// operation.
constexpr std::size_t kSmall = 64UL * 1024;           // bytes
constexpr std::int64_t kShortWait = 20'000;           // ns
constexpr std::int64_t kLeastWait = 200'000;          // ns, without idle CPUs
constexpr std::int64_t kDroppedWait = 2'000'000'000;  // ns, when a group is destroyed

}  // namespace

Backend::Backend(int rank,
                 int size,
                 std::shared_ptr<Communicator> communicator,
                 const py::object& group,
                 const Settings& settings)
    : c10d::Backend(rank, size),
      communicator_(std::move(communicator)),
      group_(group),
      completer_(std::make_shared<Kept>(group.attr("completer"))),
      options_(c10::make_intrusive<Options>("muster", settings.timeout)),
      longest_wait_ns_(settings.max_wait_ns),
      max_wait_ns_(settings.max_wait_ns),
      timeout_ms_(settings.timeout.count()) {}

Backend::~Backend() {
  const Unlocked unlocked;
  communicator_->end(kDroppedWait);
}

muster_call Backend::describe(const Call& call, std::int64_t timeout_ms) const {
  muster_call out{};
  out.size = sizeof(out);
  out.kind = call.kind;
  out.op = call.op;
  out.root = call.root;
  out.in = call.in ? buffer_of(*call.in) : muster_buffer{nullptr, 0, MUSTER_U8, MUSTER_HOST};
  out.out = buffer_of(call.out);
  out.timeout_ns = timeout_ms * 1'000'000;
  out.scale = 1;
  return out;
}

template <class CallOptions>
WorkPtr Backend::run(const Call& call, const CallOptions& options) {
  const Unlocked unlocked;
  const std::int64_t given = options.timeout.count();  // negative if not set
  const std::int64_t timeout_ms = given > 0 ? given : timeout_ms_.load();
  muster_call described = describe(call, timeout_ms);
  const bool waits = !is_async(options, 0);
  ++count_;
  if (waits && !is_shared_.load()) {
    communicator_->perform(described, timeout_ms);
    return c10::make_intrusive<Finished>(rank_, call.type, Tensors{call.out});
  }
  described.is_async = 1;
  described.max_wait_ns = waits ? 0 : max_wait(call.out.nbytes());
  Tensors used{call.out};
  if (call.in) {
    used.push_back(*call.in);
  }
  auto operation = communicator_->start(described, std::move(used), timeout_ms);
  learn(described.max_wait_ns, operation == nullptr);
  if (operation == nullptr) {
    return c10::make_intrusive<Finished>(rank_, call.type, Tensors{call.out});
  }
  auto work = c10::make_intrusive<Pending>(
      rank_,
      call.type,
      Pending::Parts{std::move(operation), Tensors{call.out}, timeout_ms, completer_});
  if (waits) {
    work->wait(kNoTimeout);
  }
  return work;
}

std::int64_t Backend::max_wait(std::size_t bytes) const {
  return std::max(max_wait_ns_.load(), bytes <= kSmall ? kShortWait : 0);
}

// Between starting an operation and waiting for it, a rank may do other work, such as sending a
// message that another rank needs before it can start its own operation. In such programs this
// code soon reduces the wait until it costs no more than it saves.
void Backend::learn(std::int64_t max_wait_ns, bool they_came) {
  const std::int64_t now = max_wait_ns_.load();
  if (they_came) {
    max_wait_ns_.store(std::min(longest_wait_ns_, 2 * now));
  } else if (max_wait_ns == now) {
    max_wait_ns_.store(std::max(now / 4, std::min(longest_wait_ns_, kLeastWait)));
  }
}

template <class... Arguments>
WorkPtr Backend::ask(const char* method, Arguments&&... arguments) {
  const py::gil_scoped_acquire gil;
  barrier_asks_.store(true);
  return c10::make_intrusive<Delegated>(
      group_.get().attr(method)(std::forward<Arguments>(arguments)...));
}

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  timeout_ms_.store(timeout.count());
  options_->timeout = timeout;
  const py::gil_scoped_acquire gil;
  group_.get().attr("set_timeout")(timeout);
}

std::uint64_t Backend::getSequenceNumberForGroup() {
  const py::gil_scoped_acquire gil;
  return count_ + group_.get().attr("_get_sequence_number_for_group")().cast<std::uint64_t>();
}

void Backend::abort() {
  const py::gil_scoped_acquire gil;
  group_.get().attr("abort")();
}

void Backend::shutdown() {
  {
    const Unlocked unlocked;
    communicator_->finish();
  }
  const py::gil_scoped_acquire gil;
  group_.get().attr("shutdown")();
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options) {
  const py::gil_scoped_acquire gil;
  const auto timeout = options ? options->timeout : std::chrono::milliseconds(timeout_ms_.load());
  const py::object made = group_.get().attr("split_backend")(store, ranks, timeout);
  return made.is_none() ? nullptr : made.cast<c10::intrusive_ptr<c10d::Backend>>();
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options) {
  const py::gil_scoped_acquire gil;
  const auto store =
      group_.get().attr("split_store")(ranks).cast<c10::intrusive_ptr<c10d::Store>>();
  return split(store, ranks, options);
}

WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const auto op = op_of(options.reduceOp);
  if (tensors.size() != 1 || !is_numeric(tensors[0]) || !op || is_watched()) {
    return ask("allreduce", tensors, options);
  }
  if (is_async(options, 0) && size_ > 1 && is_bucket(tensors[0])) {
    move_in(tensors[0], communicator_);
  }
  return run({OpType::ALLREDUCE, MUSTER_ALL_REDUCE, tensors[0], tensors[0], *op}, options);
}

WorkPtr Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return ask("allreduce", tensors, options);
}

WorkPtr Backend::allreduce_coalesced(Tensors& tensors,
                                     const c10d::AllreduceCoalescedOptions& options) {
  return ask("allreduce_coalesced", tensors, options);
}

WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const auto op = op_of(options.reduceOp);
  if (tensors.size() != 1 || !is_numeric(tensors[0]) || !op || !is_rank(options.rootRank) ||
      options.rootTensor != 0 || is_watched()) {
    return ask("reduce", tensors, options);
  }
  return run({OpType::REDUCE,
              MUSTER_REDUCE,
              tensors[0],
              tensors[0],
              *op,
              static_cast<int>(options.rootRank)},
             options);
}

WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (tensors.size() != 1 || !is_plain(tensors[0]) || !is_rank(options.rootRank) ||
      options.rootTensor != 0 || is_watched()) {
    return ask("broadcast", tensors, options);
  }
  return run({OpType::BROADCAST,
              MUSTER_BROADCAST,
              std::nullopt,
              tensors[0],
              MUSTER_SUM,
              static_cast<int>(options.rootRank)},
             options);
}

WorkPtr Backend::allgather(TensorLists& outputs,
                           Tensors& inputs,
                           const c10d::AllgatherOptions& options) {
  return ask("allgather", outputs, inputs, options);
}

WorkPtr Backend::_allgather_base(at::Tensor& output,
                                 at::Tensor& input,
                                 const c10d::AllgatherOptions& options) {
  if (!is_plain(output) || !is_plain(input) || output.scalar_type() != input.scalar_type() ||
      output.numel() != size_ * input.numel() || is_watched()) {
    return ask("_allgather_base", output, input, options);
  }
  return run({OpType::_ALLGATHER_BASE, MUSTER_ALL_GATHER, input, output}, options);
}

WorkPtr Backend::allgather_coalesced(TensorLists& outputs,
                                     Tensors& inputs,
                                     const c10d::AllgatherOptions& options) {
  return ask("allgather_coalesced", outputs, inputs, options);
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs,
                                                 Tensors& inputs,
                                                 const c10d::AllgatherOptions& options) {
  return ask("allgather_into_tensor_coalesced", outputs, inputs, options);
}

WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  return ask("gather", outputs, inputs, options);
}

WorkPtr Backend::scatter(Tensors& outputs,
                         TensorLists& inputs,
                         const c10d::ScatterOptions& options) {
  return ask("scatter", outputs, inputs, options);
}

WorkPtr Backend::reduce_scatter(Tensors& outputs,
                                TensorLists& inputs,
                                const c10d::ReduceScatterOptions& options) {
  return ask("reduce_scatter", outputs, inputs, options);
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor& output,
                                      at::Tensor& input,
                                      const c10d::ReduceScatterOptions& options) {
  const auto op = op_of(options.reduceOp);
  if (!is_numeric(output) || !is_plain(input) || output.scalar_type() != input.scalar_type() ||
      input.numel() != size_ * output.numel() || !op || is_watched()) {
    return ask("_reduce_scatter_base", output, input, options);
  }
  return run({OpType::_REDUCE_SCATTER_BASE, MUSTER_REDUCE_SCATTER, input, output, *op}, options);
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs,
                                                 Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& options) {
  return ask("reduce_scatter_tensor_coalesced", outputs, inputs, options);
}

WorkPtr Backend::alltoall_base(at::Tensor& output,
                               at::Tensor& input,
                               std::vector<std::int64_t>& output_splits,
                               std::vector<std::int64_t>& input_splits,
                               const c10d::AllToAllOptions& options) {
  const auto divides = [n = size_](const at::Tensor& t) {
    return t.dim() > 0 && t.size(0) % n == 0;
  };
  if (!output_splits.empty() || !input_splits.empty() || !is_plain(output) || !is_plain(input) ||
      output.scalar_type() != input.scalar_type() || output.numel() != input.numel() ||
      !divides(output) || !divides(input) || is_watched()) {
    return ask("alltoall_base", output, input, output_splits, input_splits, options);
  }
  return run({OpType::ALLTOALL_BASE, MUSTER_ALL_TO_ALL, input, output}, options);
}

WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  return ask("alltoall", outputs, inputs, options);
}

WorkPtr Backend::send(Tensors& tensors, int to, int tag) {
  return ask("send", tensors, to, tag);
}

WorkPtr Backend::recv(Tensors& tensors, int from, int tag) {
  return ask("recv", tensors, from, tag);
}

WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  is_shared_.store(true);
  return ask("recv_anysource", tensors, tag);
}

// Earlier operations complete before this one, because the library runs them in order. Only Python
// knows which steps follow the operations that it started.
WorkPtr Backend::barrier(const c10d::BarrierOptions& options) {
  if (barrier_asks_.exchange(false) || is_watched()) {
    const auto work = ask("barrier", options);
    barrier_asks_.store(is_async(options, 0));
    return work;
  }
  const at::Tensor token = at::zeros({1}, at::kByte);
  return run({OpType::BARRIER, MUSTER_ALL_REDUCE, token, token}, options);
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const py::gil_scoped_acquire gil;
  const py::object timeout =
      options.timeout.count() < 0 ? py::object(py::none()) : py::cast(options.timeout);
  group_.get().attr("monitored_barrier")(timeout, wait_all_ranks);
}

}  // namespace muster::torch_backend
