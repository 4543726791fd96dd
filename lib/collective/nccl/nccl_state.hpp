// SPDX-License-Identifier: Apache-2.0
// NcclState: an NCCL communicator and the error that killed it, shared by its callers, its watchdog
// and pending operations. It enforces NCCL's rules: at most one thread per device is inside NCCL; a
// background call is polled to completion before the next call; abort runs once, in its own thread,
// with a deadline. Any thread.
#pragma once

#include "collective/nccl/gpu_device.hpp"
#include "collective/nccl/nccl_messages.hpp"
#include "collective/transport/transport.hpp"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace muster::collective::nccl {

// Exit code if ncclCommAbort hangs. The process then exits, because nothing else can stop the GPU.
inline constexpr int kStuckExit = 75;
inline constexpr Duration kAbortTimeout = std::chrono::seconds(2);

struct Setup {
  std::shared_ptr<const NcclLibrary> nccl;
  std::shared_ptr<GpuDevice> device;
  Speaker speaker;
  PeerWatch* peers = nullptr;  // must outlive the transport; may be null
  // The two functions come from TransportContext and may be empty.
  std::function<std::string()> positions = {};
  std::function<std::optional<Error>(const Request&)> disagreement = {};
  Duration abort_timeout = kAbortTimeout;
};

// The GPU's progress on an operation. Any thread that has made the device current.
class Underway {
 public:
  enum class At { caller, operation, end };  // caller: the caller's earlier work is still running

  Underway() = default;
  Underway(const Underway&) = delete;
  Underway& operator=(const Underway&) = delete;
  virtual ~Underway() = default;
  [[nodiscard]] virtual At at() const = 0;
};

// One NCCL call and its purpose.
struct Call {
  const char* name = "";             // "ncclAllReduce"
  const Request* request = nullptr;  // null if not part of an operation
  TimePoint deadline;
  std::function<ncclResult_t(ncclComm_t)> body;
};

class NcclState : public std::enable_shared_from_this<NcclState> {
 public:
  explicit NcclState(Setup setup, ncclComm_t comm = nullptr)
      : setup_(std::move(setup)), comm_(comm) {}

  NcclState(const NcclState&) = delete;
  NcclState& operator=(const NcclState&) = delete;
  ~NcclState() = default;

  // Makes the call and polls until it completes. A timeout kills the communicator.
  [[nodiscard]] Result<void> run(const Call& call);

  // During init only: stores the communicator created by the body of run().
  void adopt(ncclComm_t comm) { comm_ = comm; }

  // Checks for an asynchronous error; kills the communicator if there is one.
  void look();
  // Fails all operations with this error. Keeps and returns the error of the first call.
  Error kill(Error error);
  // Checks whether a peer has failed; if so, kills the communicator.
  void look_at_peers();

  [[nodiscard]] std::optional<Error> dead() const;
  // Sleeps; returns early if the communicator dies.
  void pause(Duration most);
  // After death: waits until the GPU no longer accesses any buffer. At that point the abort has
  // completed, or it has stopped our operation and waits only for the caller's work.
  void wait_for_abort();
  [[nodiscard]] bool aborted() const;
  // Destroys the communicator after a completed finalize.
  [[nodiscard]] Result<void> destroy();
  // Call after destroy(). From then on, pending operations see a dead communicator and do not call
  // NCCL.
  void retire();

  // Sets the most recently queued operation, which an abort has to stop.
  void newest(std::weak_ptr<const Underway> operation);

  // Keeps another object alive as long as this NcclState exists.
  void keep(std::shared_ptr<void> thing) { kept_.push_back(std::move(thing)); }

  [[nodiscard]] const Setup& setup() const { return setup_; }

  [[nodiscard]] GpuDevice& device() const { return *setup_.device; }

  [[nodiscard]] const NcclTable& nccl() const { return setup_.nccl->call; }

 private:
  // Enters NCCL unless the communicator is dead.
  [[nodiscard]] Result<ncclResult_t> enter(const std::function<ncclResult_t(ncclComm_t)>& body);
  [[nodiscard]] Error failed(const Call& call, ncclResult_t result);
  [[nodiscard]] Error late(const Call& call) const;
  // NCCL may report a broken connection before the peer's death is detected, so wait briefly for
  // that detection.
  [[nodiscard]] Error blame(Error error);
  void start_abort();
  void abort_now();
  void see_abort_through(const std::shared_ptr<const Underway>& operation);
  void give_up_if_stuck(Underway::At at);
  void set_aborted();

  Setup setup_;
  ncclComm_t comm_;  // guarded by the device's lock
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> dead_;
  bool aborted_ = false;
  std::weak_ptr<const Underway> newest_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace muster::collective::nccl
