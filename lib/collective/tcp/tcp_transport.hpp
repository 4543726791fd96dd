// SPDX-License-Identifier: Apache-2.0
// TcpTransport: all operations over the mesh. HierTransport (hier/) builds on it.
#pragma once

#include "collective/lanes/lane_collectives.hpp"
#include "collective/tcp/mesh.hpp"
#include "collective/tcp/socket_lanes.hpp"
#include "collective/transport/host_transport.hpp"

#include <map>
#include <memory>
#include <optional>

namespace muster::collective {

class TcpTransport : public HostTransport {
 public:
  explicit TcpTransport(std::unique_ptr<Mesh> mesh);
  ~TcpTransport() override;

  [[nodiscard]] Mesh& mesh() { return *mesh_; }

  [[nodiscard]] Result<std::shared_ptr<Pending>> start(const Request& request) override;

  void abort(const Error& why) override { mesh_->report(why); }

  // Returns ordinary memory, because sockets need no special memory.
  [[nodiscard]] Result<void*> alloc(std::size_t bytes) override;
  [[nodiscard]] Result<void> free(void* memory) override;

  [[nodiscard]] Result<std::unique_ptr<Transfer>> begin(const Request& request) override;
  void rest(int round) override;

  [[nodiscard]] std::optional<Error> look(const Request& request) override {
    return mesh_->look(Step(request), request.root);
  }

  void wake() override {}

 protected:
  std::unique_ptr<Mesh> mesh_;
  SocketLanes lanes_;
  LaneCollectives all_;

 private:
  std::map<void*, std::size_t> allocated_;
};

}  // namespace muster::collective
