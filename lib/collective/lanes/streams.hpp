// SPDX-License-Identifier: Apache-2.0
// Streams: lanes to the members of a group. Waits until bytes have moved, first spinning, later
// sleeping. The caller keeps the memory valid until then. One thread.
#pragma once

#include "collective/lanes/lanes.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::collective {

class Streams {
 public:
  // Members are ranks of the lanes and include this rank. The lanes must outlive this object.
  Streams(Lanes& lanes, std::vector<int> members);

  [[nodiscard]] std::size_t size() const { return members_.size(); }

  [[nodiscard]] std::size_t self() const { return self_; }

  [[nodiscard]] int rank_of(std::size_t member) const { return members_[member]; }

  [[nodiscard]] Lanes& lanes() { return lanes_; }

  void send(std::size_t member, const void* data, std::size_t bytes);
  void receive(std::size_t member, void* data, std::size_t bytes);

  // Current end position of the stream to or from this member, for sent() and received().
  [[nodiscard]] std::uint64_t send_mark(std::size_t m) const { return send_marks_[m]; }

  [[nodiscard]] std::uint64_t receive_mark(std::size_t m) const { return receive_marks_[m]; }

  [[nodiscard]] bool sent(std::size_t m, std::uint64_t mark) const {
    return lanes_.sent(members_[m]) >= mark;
  }

  [[nodiscard]] bool received(std::size_t m, std::uint64_t mark) const {
    return lanes_.received(members_[m]) >= mark;
  }

  // Moves bytes until done() is true.
  template <class Done>
  [[nodiscard]] Result<void> until(const Step& step, const Done& done) {
    for (int idle = 0; !done();) {
      const auto moved = lanes_.progress(step);
      MUSTER_RETURN_IF_ERROR(moved);
      idle = *moved ? 0 : idle + 1;
      if (idle != 0 && idle % kLookEvery == 0) {
        if (auto error = lanes_.wait(step, missing(), idle / kLookEvery)) {
          return arrived(step, done) ? Result<void>() : std::unexpected(std::move(*error));
        }
      }
    }
    return {};
  }

  // Waits until all bytes have moved.
  [[nodiscard]] Result<void> drain(const Step& step);

 private:
  static constexpr int kLookEvery = 32;

  // Call after an error. Moves the bytes that have already arrived and returns whether done() is
  // then true, because a peer may send its last bytes after our last progress() and then die.
  template <class Done>
  [[nodiscard]] bool arrived(const Step& step, const Done& done) {
    while (!done()) {
      const auto moved = lanes_.progress(step);
      if (!moved || !*moved) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool is_open(std::size_t member) const;
  // The first rank whose stream still has bytes to move; -1 if there is none.
  [[nodiscard]] int missing() const;

  Lanes& lanes_;
  std::vector<int> members_;
  std::size_t self_ = 0;
  std::vector<std::uint64_t> send_marks_;
  std::vector<std::uint64_t> receive_marks_;
};

}  // namespace muster::collective
