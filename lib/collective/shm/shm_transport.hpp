// SPDX-License-Identifier: Apache-2.0
// ShmTransport: the backend for ranks on one host. Operations use Shm; sends and receives use a
// ring of pieces per pair of ranks.
#pragma once

#include "collective/shm/shm.hpp"
#include "collective/transport/host_transport.hpp"

#include <set>
#include <tuple>

namespace muster::collective {

class ShmTransport final : public HostTransport {
 public:
  // Ranks are indices in the segment, which must outlive this object.
  explicit ShmTransport(Segment& segment) : segment_(segment), shm_(segment) {}

  [[nodiscard]] Result<std::shared_ptr<Pending>> start(const Request& request) override;

  [[nodiscard]] bool prompt() const override { return shm_.prompt(); }

  [[nodiscard]] bool others_come(const Request& next, TimePoint until) override {
    return shm_.others_come(Step(next), until);
  }

  void abort(const Error& why) override { segment_.report(why); }

  [[nodiscard]] Result<void*> alloc(std::size_t bytes) override { return shm_.alloc(bytes); }

  [[nodiscard]] Result<void> free(void* memory) override { return shm_.free(memory); }

  [[nodiscard]] Result<std::unique_ptr<Transfer>> begin(const Request& request) override;
  void rest(int round) override;

  [[nodiscard]] std::optional<Error> look(const Request& request) override {
    // The caller steps the transfer between two checks. So if the peer had already left at the
    // previous check, it will not complete the transfer.
    const bool gone = segment_.left(request.root) &&
                      !undone_.insert({request.kind, request.root, request.seq}).second;
    return segment_.look(Step(request), request.root, gone);
  }

  void wake() override { segment_.wake_sleepers(); }

 private:
  Segment& segment_;
  Shm shm_;
  // Transfers that were still incomplete at the last check and whose peer has left.
  std::set<std::tuple<Kind, int, std::uint64_t>> undone_;
};

}  // namespace muster::collective
