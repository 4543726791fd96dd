// SPDX-License-Identifier: Apache-2.0
// How ranks find each other through the store before they have connections: each rank publishes a
// card, and all ranks learn which of them share a host. Blocks; one thread.
#pragma once

#include "base/time.hpp"
#include "collective/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {
class Store;
}

namespace muster::collective {

class StartWatch;

// This rank's number, the number of ranks, and the part of the store that they share.
struct BootstrapContext {
  Store* store = nullptr;
  std::string prefix = {};  // ends with '/'
  int rank = 0;
  int size = 1;
  TimePoint deadline = {};
  StartWatch* watch = nullptr;  // checked while waiting for other ranks
};

// Waits until all keys exist and returns their values. Errors: timeout; store; any failure that
// the watch has detected. `doing` becomes the prefix of the store's error message.
[[nodiscard]] Result<std::vector<std::string>> await_keys(const BootstrapContext& context,
                                                          const std::vector<std::string>& keys,
                                                          std::string_view doing);

// Returns the cards of all ranks, in rank order. Use each `topic` only once per context. Errors:
// timeout, naming the missing ranks; store; any failure that the watch has detected.
[[nodiscard]] Result<std::vector<std::string>> exchange_cards(const BootstrapContext& context,
                                                              std::string_view topic,
                                                              const std::string& card);

// An identifier that is equal for ranks that can share memory. It combines the boot id, the
// network namespace (the scope of abstract sockets) and the user.
[[nodiscard]] std::string host_word();

// 128 random bits from the kernel, as text.
[[nodiscard]] std::string random_word();

[[nodiscard]] Duration left_until(TimePoint deadline);

}  // namespace muster::collective
