// SPDX-License-Identifier: Apache-2.0
// NcclState: a communicator of NCCL and why it is dead, shared by those who call it, by its
// watchdog and by operations that somebody still waits for. Sees to NCCL's rules: one thread
// inside per device, a call that goes on in the background is polled to its end before anything
// else, and abort happens once, in a thread of its own, with a deadline. Any thread.
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

// What the process ends with when ncclCommAbort hangs: a GPU that cannot be stopped otherwise.
inline constexpr int kStuckExit = 75;
inline constexpr Duration kAbortTimeout = std::chrono::seconds(2);

struct Setup {
  std::shared_ptr<const NcclLibrary> nccl;
  std::shared_ptr<GpuDevice> device;
  Speaker speaker;
  PeerWatch* peers = nullptr;  // outlives the transport; may be null
  // TransportContext's; may be empty.
  std::function<std::string()> positions = {};
  std::function<std::optional<Error>(const Request&)> disagreement = {};
  Duration abort_timeout = kAbortTimeout;
};

// How far the GPU is with an operation; any thread that has made the device current.
class Underway {
 public:
  enum class At { caller, operation, end };  // still at work of the caller, that comes before

  Underway() = default;
  Underway(const Underway&) = delete;
  Underway& operator=(const Underway&) = delete;
  virtual ~Underway() = default;
  [[nodiscard]] virtual At at() const = 0;
};

// One call, and what it is for.
struct Call {
  const char* name = "";             // "ncclAllReduce"
  const Request* request = nullptr;  // null: outside of an operation
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

  // Calls, and polls until the call has ended or the deadline is over, which kills.
  [[nodiscard]] Result<void> run(const Call& call);

  // Of init only: what run's body has made.
  void adopt(ncclComm_t comm) { comm_ = comm; }

  // Asks for an asynchronous error, and kills if there is one.
  void look();
  // Ends everything with this error; the first one counts and is returned.
  Error kill(Error error);
  // Whether the peers know of a failure; kills.
  void look_at_peers();

  [[nodiscard]] std::optional<Error> dead() const;
  // Sleeps, less if the communicator dies.
  void pause(Duration most);
  // After death: until the GPU leaves all buffers alone: the abort is over, or has stopped what it
  // had to stop and waits for work of the caller.
  void wait_for_abort();
  [[nodiscard]] bool aborted() const;
  // Destroys, after a finalize that has ended.
  [[nodiscard]] Result<void> destroy();
  // After destroy: whoever still holds an operation finds this dead, and nothing is called.
  void retire();

  // The operation that was queued last: what an abort has to stop.
  void newest(std::weak_ptr<const Underway> operation);

  // Keeps something alive as long as this is.
  void keep(std::shared_ptr<void> thing) { kept_.push_back(std::move(thing)); }

  [[nodiscard]] const Setup& setup() const { return setup_; }

  [[nodiscard]] GpuDevice& device() const { return *setup_.device; }

  [[nodiscard]] const NcclTable& nccl() const { return setup_.nccl->call; }

 private:
  // Into NCCL, if not dead.
  [[nodiscard]] Result<ncclResult_t> enter(const std::function<ncclResult_t(ncclComm_t)>& body);
  [[nodiscard]] Error failed(const Call& call, ncclResult_t result);
  [[nodiscard]] Error late(const Call& call) const;
  // A peer's death is often known better a moment later than NCCL sees a broken connection.
  [[nodiscard]] Error blame(Error error);
  void start_abort();
  void abort_now();
  void see_abort_through(const std::shared_ptr<const Underway>& operation);
  void give_up_if_stuck(Underway::At at);
  void set_aborted();

  Setup setup_;
  ncclComm_t comm_;  // under the device's lock
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> dead_;
  bool aborted_ = false;
  std::weak_ptr<const Underway> newest_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace muster::collective::nccl
