// SPDX-License-Identifier: Apache-2.0
// NcclCommunicator: the backend for GPU buffers. Queues each operation on its own stream between
// two events, so that the caller's stream does not stall. Always non-blocking and abortable. One
// thread at a time calls start(), alloc() and split(); any thread may call abort(). Resource type.
#pragma once

#include "collective/nccl/nccl_bootstrap.hpp"
#include "collective/nccl/nccl_watchdog.hpp"

#include <map>

namespace muster::collective::nccl {

struct NcclOptions {
  Duration init_timeout = std::chrono::seconds(60);
  // Register memory from alloc() with NCCL (zero copy over NVLink SHARP and InfiniBand). Must be
  // equal on all ranks.
  bool register_buffers = false;
  // Compare the ranks' calls before each operation (nccl_check.hpp). Must be equal on all ranks.
  bool check_calls = false;
};

// The settings that must be equal on all ranks.
[[nodiscard]] std::string describe(const NcclOptions& options);

class NcclCommunicator final : public Transport {
 public:
  // All ranks must call create(). `prefix` is prepended to the keys in the store.
  [[nodiscard]] static Result<std::unique_ptr<NcclCommunicator>> create(Setup setup,
                                                                        BootstrapContext context,
                                                                        NcclOptions options,
                                                                        Progress* progress);
  // Waits for operations in progress and leaves the group. If that is not possible, aborts.
  ~NcclCommunicator() override;

  // The new communicator contains the ranks of one color, ordered by key; null for a negative
  // color.
  [[nodiscard]] Result<std::unique_ptr<NcclCommunicator>> split(int color, int key);

  [[nodiscard]] Result<void> refuse(const Request& request) const override;
  [[nodiscard]] Result<std::shared_ptr<Pending>> start(const Request& request) override;
  void abort(const Error& why) override;
  [[nodiscard]] Result<void*> alloc(std::size_t bytes) override;
  [[nodiscard]] Result<void> free(void* memory) override;
  [[nodiscard]] Result<std::unique_ptr<DeviceQueue>> make_queue() override;

  [[nodiscard]] int rank() const { return state_->setup().speaker.rank; }

  [[nodiscard]] int size() const { return state_->setup().speaker.size; }

  // After the communicator has died: waits until the GPU is free again.
  void wait_for_abort() { state_->wait_for_abort(); }

 private:
  struct Memory {
    bool from_nccl = false;
    void* registration = nullptr;
  };

  NcclCommunicator(std::shared_ptr<NcclState> state, NcclOptions options, Progress* progress);
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<std::shared_ptr<NcclPending>> launch(const Request& request);
  [[nodiscard]] Result<void> compare(const Request& request);
  [[nodiscard]] Result<void> queue(const Request& request, NcclPending& operation);
  [[nodiscard]] Result<void> call(const Request& request);
  [[nodiscard]] Result<void> reduce_with_scalar(const Request& request, double scalar);
  [[nodiscard]] Result<void> reduce_with_operator(const Request& request, ncclRedOp_t op);
  [[nodiscard]] Result<void> refuse_captured(const Request& request) const;
  [[nodiscard]] Result<void> clear(void* memory, std::size_t bytes);
  [[nodiscard]] Result<void> release(void* memory, const Memory& how);
  void leave();

  std::shared_ptr<NcclState> state_;
  NcclOptions options_;
  Progress* progress_;
  std::shared_ptr<EventPool> events_;
  std::unique_ptr<GpuStream> stream_;
  std::unique_ptr<NcclWatchdog> watchdog_;
  std::map<void*, Memory> memory_;
  void* scratch_ = nullptr;
};

}  // namespace muster::collective::nccl
