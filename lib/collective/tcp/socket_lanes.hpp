// SPDX-License-Identifier: Apache-2.0
// SocketLanes: implements Lanes over the data connections of a mesh. Posted memory is queued and
// moved by non-blocking sendmsg and recvmsg calls. Resource type.
#pragma once

#include "collective/lanes/lanes.hpp"
#include "collective/tcp/mesh.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace muster::collective {

class SocketLanes final : public Lanes {
 public:
  // The mesh must outlive this object.
  explicit SocketLanes(Mesh& mesh);

  [[nodiscard]] int rank() const override { return mesh_.rank(); }

  [[nodiscard]] int size() const override { return mesh_.size(); }

  std::uint64_t post_send(int rank, const void* data, std::size_t bytes) override;
  std::uint64_t post_recv(int rank, void* data, std::size_t bytes) override;

  [[nodiscard]] std::uint64_t sent(int rank) const override {
    return out_[static_cast<std::size_t>(rank)].moved;
  }

  [[nodiscard]] std::uint64_t received(int rank) const override {
    return in_[static_cast<std::size_t>(rank)].moved;
  }

  [[nodiscard]] Result<bool> progress(const Step& step) override;
  [[nodiscard]] std::optional<Error> wait(const Step& step, int missing, int round) override;

  void seen(int rank, const Request& operation) override { mesh_.seen(rank, operation); }

  [[nodiscard]] std::optional<Error> failure() const override { return mesh_.failure(); }

  void report(const Error& error) override { mesh_.report(error); }

 private:
  struct Piece {
    char* data;
    std::size_t bytes;
  };

  // One direction of a connection.
  struct Direction {
    std::deque<Piece> pieces;
    std::uint64_t posted = 0;
    std::uint64_t moved = 0;
  };

  static std::uint64_t post(Direction& to, char* data, std::size_t bytes);
  // Returns the bytes moved, 0 if it would block, -1 if the connection is closed.
  [[nodiscard]] static std::int64_t move(int fd, Direction& way, bool out);

  Mesh& mesh_;
  std::vector<Direction> out_;
  std::vector<Direction> in_;
};

}  // namespace muster::collective
