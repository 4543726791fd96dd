// SPDX-License-Identifier: Apache-2.0
// What a Communicator is made of. Private to communicator*.cpp.
#pragma once

#include "base/environ.hpp"
#include "collective/async_queue.hpp"
#include "collective/checks.hpp"
#include "collective/communicator.hpp"
#include "collective/flight_recorder.hpp"
#include "collective/gpu_pointers.hpp"
#include "collective/hosts.hpp"
#include "collective/segment.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace muster::collective {

// What a communicator is made with; kept for split and rebuild.
struct Recipe {
  std::shared_ptr<Store> store;
  Membership membership;
  CommOptions options;
  Environ environ;
};

class MUSTER_COLLECTIVE_HIDDEN Communicator::Impl {
 public:
  [[nodiscard]] static Result<Communicator> make(Recipe recipe, const PeerWatch* parent = nullptr);
  ~Impl();

  // Of the caller; of the library itself, which may use memory of the host for its own words where
  // the back end nccl is asked for.
  [[nodiscard]] Result<Work> submit(const Call& call, const OpOptions& options);
  [[nodiscard]] Result<Work> submit_own(const Call& call, const OpOptions& options = {});
  [[nodiscard]] Result<Communicator> make_child(const Membership& membership,
                                                std::string name,
                                                const PeerWatch* parent) const;
  [[nodiscard]] Result<Transport*> device_transport(int ordinal);
  [[nodiscard]] std::optional<Error> fate() const;
  // Where the ranks of this host are, on one line.
  [[nodiscard]] std::string positions() const;
  // Of operations on GPUs, which NCCL does not compare: where a rank of this host calls another
  // one.
  [[nodiscard]] std::optional<Error> disagreement(const Request& mine) const;

  Recipe recipe;
  Backend backend = Backend::shm;
  Hosts hosts;
  std::string prefix;
  std::unique_ptr<FlightRecorder> recorder;
  std::unique_ptr<Segment> segment;
  PeerWatch* peers = nullptr;  // the one that knows of all ranks
  std::unique_ptr<HostTransport> host;
  std::unique_ptr<CollectiveQueue> collectives;
  std::unique_ptr<TransferQueue> transfers;
  std::unique_ptr<Transport> device;
  std::uint64_t seq = 0;         // of collective operations of the host
  std::uint64_t device_seq = 0;  // of those on GPUs
  std::uint64_t splits = 0;
  std::uint32_t generation = fork_generation();

 private:
  [[nodiscard]] Result<void> meet(const PeerWatch* parent);
  [[nodiscard]] Result<void> choose_prefix();
  [[nodiscard]] Result<void> join_all(const Meeting& meeting);
  [[nodiscard]] Result<void> join_host(const Meeting& meeting);
  [[nodiscard]] Result<void> open_recorder();
  [[nodiscard]] Result<void> make_transport(const Meeting& meeting);
  [[nodiscard]] Result<Work> submit_host(const Request& request,
                                         const OpOptions& options,
                                         TimePoint now);
  [[nodiscard]] Result<Work> submit_transfer(const AsyncJob& job, bool async) const;
  [[nodiscard]] Result<Work> submit_device(const Request& request);
  // Of the last operation of this kind.
  [[nodiscard]] std::uint64_t& number(const Request& request);

  GpuPointers pointers_;
  std::map<std::pair<Kind, int>, std::uint64_t> transfer_numbers_;
};

}  // namespace muster::collective
