// SPDX-License-Identifier: Apache-2.0
// The muster backend as a c10d::Backend. Operations that training loops call often go directly to
// the library. All others, and unusual arguments, go to the group in Python (group.py), which
// shares the communicator.
#pragma once

#include "python/muster/torch/native/arguments.hpp"
#include "python/muster/torch/native/buckets.hpp"
#include "python/muster/torch/native/pending.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster::torch_backend {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using TensorLists = std::vector<Tensors>;

class Backend final : public c10d::Backend {
 public:
  struct Settings {
    std::chrono::milliseconds timeout;  // for each operation
    // How long a call that starts an asynchronous operation may wait for the other ranks, so that
    // the call itself can run the operation. After that, or if this is 0, a library thread runs it.
    std::int64_t max_wait_ns;
  };

  // group: a ProcessGroup from group.py.
  Backend(int rank,
          int size,
          std::shared_ptr<Communicator> communicator,
          const py::object& group,
          const Settings& settings);
  ~Backend() override;

  // The functions of PyTorch 2.15. Earlier versions lack some, so there is no `override`.
  const std::string getBackendName() const { return "muster"; }

  c10::intrusive_ptr<Options> getBackendOptions() { return options_; }

  bool supportsSplitting() const { return true; }

  void setTimeout(std::chrono::milliseconds timeout);
  std::uint64_t getSequenceNumberForGroup();

  void setSequenceNumberForGroup() {}

  void abort();
  void shutdown();
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options);
  c10::intrusive_ptr<c10d::Backend> split(const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options);

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options);
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options);
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options);
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options);
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options);
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options);
  WorkPtr _allgather_base(at::Tensor& output,
                          at::Tensor& input,
                          const c10d::AllgatherOptions& options);
  WorkPtr allgather_coalesced(TensorLists& outputs,
                              Tensors& inputs,
                              const c10d::AllgatherOptions& options);
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::AllgatherOptions& options);
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options);
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options);
  WorkPtr reduce_scatter(Tensors& outputs,
                         TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options);
  WorkPtr _reduce_scatter_base(at::Tensor& output,
                               at::Tensor& input,
                               const c10d::ReduceScatterOptions& options);
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options);
  WorkPtr alltoall_base(at::Tensor& output,
                        at::Tensor& input,
                        std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options);
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options);
  WorkPtr send(Tensors& tensors, int to, int tag);
  WorkPtr recv(Tensors& tensors, int from, int tag);
  WorkPtr recvAnysource(Tensors& tensors, int tag);
  WorkPtr barrier(const c10d::BarrierOptions& options);
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks);

  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

 private:
  struct Call {
    c10d::OpType type;
    int kind;
    std::optional<at::Tensor> in;
    at::Tensor out;
    int op = MUSTER_SUM;
    int root = -1;
  };

  // Runs the operation, or only starts it if the caller requested an asynchronous operation.
  template <class CallOptions>
  WorkPtr run(const Call& call, const CallOptions& options);
  [[nodiscard]] muster_call describe(const Call& call, std::int64_t timeout_ms) const;
  // How long a call that starts an asynchronous operation may wait for the other ranks, in ns.
  [[nodiscard]] std::int64_t max_wait(std::size_t bytes) const;
  // Adapts the wait time after a call with this max_wait_ns.
  void learn(std::int64_t max_wait_ns, bool they_came);
  // Delegates the operation to Python.
  template <class... Arguments>
  WorkPtr ask(const char* method, Arguments&&... arguments);

  // Profiled operations run in Python, because Python creates the profiler's ranges.
  [[nodiscard]] static bool is_watched() { return at::hasCallbacks(); }

  [[nodiscard]] bool is_rank(std::int64_t rank) const { return rank >= 0 && rank < size_; }

  std::shared_ptr<Communicator> communicator_;
  Kept group_;
  std::shared_ptr<Kept> completer_;
  c10::intrusive_ptr<Options> options_;
  const std::int64_t longest_wait_ns_;
  std::atomic<std::int64_t> max_wait_ns_;
  std::atomic<std::int64_t> timeout_ms_;
  std::atomic<std::uint64_t> count_{0};
  // Another thread may start a receive during an operation, so no thread holds the lock for long.
  std::atomic<bool> is_shared_{false};
  std::atomic<bool> barrier_asks_{false};  // Python has run operations since the last barrier
};

// At process exit, while Python still runs: aborts pending operations of all communicators.
void end_all();

}  // namespace muster::torch_backend
