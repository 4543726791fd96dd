// SPDX-License-Identifier: Apache-2.0
// How ranks find each other through the store before they can talk: a card from each, and which of
// them are on this host. Blocks; one thread.
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

// Where a rank stands among all, and the part of the store that is theirs.
struct BootstrapContext {
  Store* store = nullptr;
  std::string prefix = {};  // ends with '/'
  int rank = 0;
  int size = 1;
  TimePoint deadline = {};
  StartWatch* watch = nullptr;  // looked at while others are waited for
};

// The values of these keys, once all exist. Errors: timeout; store; what the watch has seen.
// `doing` is put in front of the store's message.
[[nodiscard]] Result<std::vector<std::string>> await_keys(const BootstrapContext& context,
                                                          const std::vector<std::string>& keys,
                                                          std::string_view doing);

// Gives each rank the cards of all, in the order of ranks. `topic` is used once per context.
// Errors: timeout, naming the ranks that did not come; store; what the watch has seen.
[[nodiscard]] Result<std::vector<std::string>> exchange_cards(const BootstrapContext& context,
                                                              std::string_view topic,
                                                              const std::string& card);

// A word that is equal for ranks that can share memory: the machine since its start, its network
// (what an abstract socket is seen in) and the user.
[[nodiscard]] std::string host_word();

// 128 bits of the kernel's randomness as text.
[[nodiscard]] std::string random_word();

[[nodiscard]] Duration left_until(TimePoint deadline);

}  // namespace muster::collective
