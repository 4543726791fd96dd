// SPDX-License-Identifier: Apache-2.0
// ControlMessages: what another rank says on its control lane: why it gives up, or that it leaves.
// Takes bytes from the network as they come and keeps one message of them, never more. Pure.
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

  // What follows the first message is ignored: a rank sends one.
  void take(std::span<const char> bytes);

  // The first message, once it is complete; none if it is not understood.
  [[nodiscard]] std::optional<Error> first() const;

  // Bytes in memory.
  [[nodiscard]] std::size_t held() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

}  // namespace muster::collective
