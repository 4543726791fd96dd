// SPDX-License-Identifier: Apache-2.0
// The implementation of Communicator. Private to communicator*.cpp.
#pragma once

#include "base/environ.hpp"
#include "collective/bootstrap/hosts.hpp"
#include "collective/communicator.hpp"
#include "collective/communicator/async_queue.hpp"
#include "collective/communicator/checks.hpp"
#include "collective/nccl/gpu_pointers.hpp"
#include "collective/recorder/flight_recorder.hpp"
#include "collective/shm/segment.hpp"
#include "collective/transport/gradient_support.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include <pthread.h>

namespace muster::collective {

// The arguments that a communicator was created with; kept for split and rebuild.
struct Recipe {
  std::shared_ptr<Store> store;
  Membership membership;
  CommOptions options;
  Environ environ;
};

class Communicator::Impl final : public GradientSupport {
 public:
  [[nodiscard]] static Result<Communicator> make(Recipe recipe, const PeerWatch* parent = nullptr);
  ~Impl() override;

  // submit() runs the user's calls. submit_own() runs the library's own calls, which may use host
  // memory for internal messages even if the user selected backend nccl.
  [[nodiscard]] Result<Work> submit(const Call& call, const OpOptions& options);
  [[nodiscard]] Result<Work> submit_own(const Call& call, const OpOptions& options = {});
  [[nodiscard]] Result<Communicator> make_child(const Membership& membership,
                                                std::string name,
                                                const PeerWatch* parent) const;
  [[nodiscard]] Result<Transport*> device_transport(int ordinal);
  [[nodiscard]] std::optional<Error> terminal_error() const;
  void abort(const std::string& reason);

  [[nodiscard]] Result<std::unique_ptr<DeviceQueue>> make_queue(int ordinal) override;

  [[nodiscard]] Result<void> gather_all(ConstBuffer in, Buffer out) override {
    return run_own({.kind = Kind::all_gather, .in = in, .out = out});
  }

  [[nodiscard]] Result<void> reduce_all(Buffer buffer, Op op) override {
    return run_own({.kind = Kind::all_reduce, .in = buffer, .out = buffer, .op = op});
  }

  [[nodiscard]] Result<void> broadcast_from(int root, Buffer buffer) override {
    return run_own({.kind = Kind::broadcast, .in = {}, .out = buffer, .root = root});
  }

  // The state of the ranks on this host, on one line.
  [[nodiscard]] std::string positions() const;
  // Returns an error if a rank on this host calls a different operation. Used for GPU operations,
  // because NCCL does not compare their arguments.
  [[nodiscard]] std::optional<Error> disagreement(const Request& mine) const;

  Recipe recipe;
  Backend backend = Backend::shm;
  Hosts hosts;
  std::string prefix;
  std::unique_ptr<FlightRecorder> recorder;
  std::unique_ptr<Segment> segment;
  PeerWatch* peers = nullptr;  // the PeerWatch that watches all ranks
  std::unique_ptr<HostTransport> host;
  std::unique_ptr<CollectiveQueue> collectives;
  std::unique_ptr<TransferQueue> transfers;
  std::unique_ptr<Transport> device;
  std::uint64_t seq = 0;         // number of collective operations on host buffers
  std::uint64_t device_seq = 0;  // number of operations on GPU buffers
  std::uint64_t splits = 0;
  std::uint32_t generation = fork_generation();

 private:
  [[nodiscard]] Result<Work> submit_checked(Request& request, const OpOptions& options);
  // Called when a second thread makes a call while one is in progress. Ranks could disagree on the
  // order of their operations and wait for each other forever, so this function aborts the
  // communicator.
  [[nodiscard]] Error refuse_second_thread(const Request& request);
  [[nodiscard]] Result<void> meet(const PeerWatch* parent);
  [[nodiscard]] Result<void> choose_prefix();
  [[nodiscard]] Result<void> join_all(const BootstrapContext& context);
  [[nodiscard]] Result<void> join_host(const BootstrapContext& context);
  [[nodiscard]] Result<void> open_recorder();
  [[nodiscard]] Result<void> make_transport(const BootstrapContext& context);
  [[nodiscard]] Result<Work> submit_host(const Request& request,
                                         const OpOptions& options,
                                         TimePoint now);
  [[nodiscard]] bool others_come(const Request& request,
                                 const OpOptions& options,
                                 TimePoint now) const;
  [[nodiscard]] Result<void> run_own(const Call& call);
  [[nodiscard]] Result<Work> submit_transfer(const AsyncJob& job, bool async) const;
  [[nodiscard]] Result<Work> submit_device(const Request& request);
  // The counter for the request's number: seq, device_seq, or a counter per pair of ranks.
  [[nodiscard]] std::uint64_t& number(const Request& request);

  static constexpr pthread_t kNoThread = 0;
  std::atomic<pthread_t> caller_{kNoThread};  // the thread that is currently in a call
  GpuPointers pointers_;
  std::map<std::pair<Kind, int>, std::uint64_t> transfer_numbers_;
};

}  // namespace muster::collective
