// SPDX-License-Identifier: Apache-2.0
// ControlMessages: messages from another rank on its control lane: a welcome once it has accepted
// all our connections, then a failure reason or a goodbye. Parses bytes as they arrive and keeps
// at most one message of each kind. Pure.
#pragma once

#include "collective/error.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace muster::collective {

class ControlMessages {
 public:
  // Errc::ok means that the sending rank is leaving.
  [[nodiscard]] static std::string encode(const Error& error);

  // Sent once all connections of this pair are accepted.
  [[nodiscard]] static std::string encode_welcome();

  // Ignores all but the first message of each kind, and everything after an invalid one.
  void take(std::span<const char> bytes);

  [[nodiscard]] bool is_welcomed() const { return is_welcomed_; }

  // The first failure reason or goodbye, once complete. Empty if it is invalid.
  [[nodiscard]] const std::optional<Error>& first() const { return first_; }

  // Number of buffered bytes not yet parsed.
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
