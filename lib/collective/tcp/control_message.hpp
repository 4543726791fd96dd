// SPDX-License-Identifier: Apache-2.0
// ControlMessages: what another rank says on its control lane: a welcome once it has accepted all
// of our connections, then why it gives up, or that it leaves. Takes bytes from the network as they
// come and keeps one message of them, never more. Pure.
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

  // All connections of this pair are accepted. It comes before anything else.
  [[nodiscard]] static std::string encode_welcome();

  // What follows the first message is ignored: a rank sends one after its welcome.
  void take(std::span<const char> bytes);

  [[nodiscard]] bool is_welcomed() const { return is_welcomed_; }

  // The first message after a welcome, once it is complete; none if it is not understood.
  [[nodiscard]] std::optional<Error> first() const;

  // Bytes in memory.
  [[nodiscard]] std::size_t held() const { return bytes_.size(); }

 private:
  std::string bytes_;
  bool is_welcomed_ = false;
};

}  // namespace muster::collective
