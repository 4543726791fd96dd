// SPDX-License-Identifier: Apache-2.0
// HierTransport: runs all_reduce in shared memory within a host and over TCP between hosts, if all
// hosts have the same number of ranks. All other operations use the mesh.
#pragma once

#include "collective/bootstrap/hosts.hpp"
#include "collective/shm/shm.hpp"
#include "collective/tcp/tcp_transport.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace muster::collective {

class HierTransport final : public TcpTransport {
 public:
  HierTransport(std::unique_ptr<Mesh> mesh, Segment& segment, const Hosts& hosts);

  [[nodiscard]] Result<std::shared_ptr<Pending>> start(const Request& request) override;

  [[nodiscard]] Result<void*> alloc(std::size_t bytes) override { return local_.alloc(bytes); }

  [[nodiscard]] Result<void> free(void* memory) override { return local_.free(memory); }

 private:
  [[nodiscard]] Result<void> all_reduce(const Request& request);
  [[nodiscard]] Result<void> not_in_steps(const Request& request);
  // Extends the deadline for the second or third step.
  [[nodiscard]] static Step later(const Step& request, int step);
  // The count must be divisible by the number of ranks on the host.
  [[nodiscard]] Result<void> sum_in_steps(const Step& request);
  // Copies the elements from index `first` onward into a private buffer, pads them and sums them.
  [[nodiscard]] Result<void> sum_filled_up(const Request& request, std::uint64_t first);

  Segment& segment_;
  Shm local_;
  std::optional<LaneCollectives>
      across_;  // the ranks with our index on each host; empty if rank counts differ
  // The next sequence number for operations on this host.
  [[nodiscard]] std::uint64_t next_step(const Step& request);

  std::uint64_t local_seq_ = 0;
  std::vector<char> filled_up_;
};

}  // namespace muster::collective
