// SPDX-License-Identifier: Apache-2.0
// Streams: what goes to and comes from each rank of a group on the data lane, queued as pieces of
// memory and moved by one thread: busy at first, later sleeping. The owner keeps the memory until
// the piece has gone or come. Resource type.
#pragma once

#include "collective/mesh.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace muster::collective {

class Streams {
 public:
  // The members are ranks of the mesh; one of them is ours.
  Streams(Mesh& mesh, std::vector<int> members);

  [[nodiscard]] std::size_t size() const { return members_.size(); }

  [[nodiscard]] std::size_t self() const { return self_; }

  [[nodiscard]] int rank_of(std::size_t member) const { return members_[member]; }

  [[nodiscard]] Mesh& mesh() { return mesh_; }

  void send(std::size_t member, const void* data, std::size_t bytes);
  void receive(std::size_t member, void* data, std::size_t bytes);

  // Bytes that had been queued for this member by now: what come() and gone() compare with.
  [[nodiscard]] std::uint64_t sent_mark(std::size_t m) const { return out_[m].queued; }

  [[nodiscard]] std::uint64_t received_mark(std::size_t m) const { return in_[m].queued; }

  [[nodiscard]] bool gone(std::size_t m, std::uint64_t mark) const { return out_[m].moved >= mark; }

  [[nodiscard]] bool come(std::size_t m, std::uint64_t mark) const { return in_[m].moved >= mark; }

  // Moves bytes until `done()`.
  template <class Done>
  [[nodiscard]] Result<void> until(const Request& request, const Done& done) {
    for (int idle = 0; !done();) {
      const auto moved = pump(request);
      if (!moved) {
        return std::unexpected(moved.error());
      }
      idle = *moved ? 0 : idle + 1;
      if (idle != 0 && idle % kLookEvery == 0) {
        if (auto error = wait(request, idle / kLookEvery)) {
          return std::unexpected(std::move(*error));
        }
      }
    }
    return {};
  }

  // Until nothing is queued.
  [[nodiscard]] Result<void> drain(const Request& request);

 private:
  static constexpr int kLookEvery = 32;

  struct Piece {
    char* data;
    std::size_t bytes;
  };

  struct Way {
    std::deque<Piece> pieces;
    std::uint64_t queued = 0;
    std::uint64_t moved = 0;
  };

  [[nodiscard]] Result<bool> pump(const Request& request);
  // Bytes moved, 0 if it would block, -1 if the connection is closed.
  [[nodiscard]] static std::int64_t move(int fd, Way& way, bool out);
  [[nodiscard]] std::optional<Error> wait(const Request& request, int round);

  Mesh& mesh_;
  std::vector<int> members_;
  std::size_t self_ = 0;
  std::vector<Way> out_;
  std::vector<Way> in_;
};

}  // namespace muster::collective
