// SPDX-License-Identifier: Apache-2.0
// ControlMessages: what another rank says on its control lane: a welcome once it has accepted all
// of our connections, then why it gives up, or that it leaves. Takes bytes from the network as they
// come and keeps one message of each kind, never more. Pure.
#pragma once

#include "collective/error.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace muster::collective {

class ControlMessages {
 public:
  // Code ok: this rank leaves.
  [[nodiscard]] static std::string encode(const Error& error);

  // All connections of this pair are accepted.
  [[nodiscard]] static std::string encode_welcome();

  // Other messages than the first are ignored, and everything after one that is not understood.
  void take(std::span<const char> bytes);

  [[nodiscard]] bool is_welcomed() const { return is_welcomed_; }

  // The first reason, or that it leaves, once it is complete; none if it is not understood.
  [[nodiscard]] const std::optional<Error>& first() const { return first_; }

  // Bytes in memory that were not understood yet.
  [[nodiscard]] std::size_t held() const { return bytes_.size(); }

 private:
  [[nodiscard]] bool take_one();

  [[nodiscard]] bool is_done() const { return is_strange_ || (first_ && is_welcomed_); }

  std::string bytes_;
  std::optional<Error> first_;
  bool is_welcomed_ = false;
  bool is_strange_ = false;
};

}  // namespace muster::collective
