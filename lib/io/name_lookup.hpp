// SPDX-License-Identifier: Apache-2.0
// NameLookup: resolves a name without blocking the loop, even if DNS servers do not respond.
// Callers that connect by name create it on the loop's thread. The lookup rules are documented in
// io/resolver.hpp. Resource: destroying it cancels the lookup, and the callback is then never
// called.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace asio {
class io_context;
}

namespace muster {

class NameLookup {
 public:
  using Callback = std::function<void(Result<std::vector<std::string>>)>;

  // Calls `callback` once within `timeout`, from the loop and never from within the constructor.
  NameLookup(asio::io_context& loop, std::string name, Duration timeout, Callback callback);
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;
  ~NameLookup();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
