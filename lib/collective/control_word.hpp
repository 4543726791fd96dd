// SPDX-License-Identifier: Apache-2.0
// ControlWords: what another rank says on its control lane: why it gives up, or that it leaves.
// Takes bytes from the network as they come and keeps one word of them, never more. Pure.
#pragma once

#include "collective/error.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace muster::collective {

class ControlWords {
 public:
  // Code ok: I leave.
  [[nodiscard]] static std::string encode(const Error& error);

  // What follows the first word means nothing: a rank says one.
  void take(std::span<const char> bytes);

  // The first word, once it is complete; none if it is not understood.
  [[nodiscard]] std::optional<Error> word() const;

  // Bytes in memory.
  [[nodiscard]] std::size_t held() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

}  // namespace muster::collective
