// SPDX-License-Identifier: Apache-2.0
// ServedStore: a store server in a thread of this process. Rank 0 uses it if the launcher does not
// serve a store. Resource type.
#pragma once

#include "collective/error.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace muster::collective {

class ServedStore {
 public:
  // Listens on `host` if that is an address of this machine. Otherwise listens on all addresses,
  // because a name may resolve differently on other ranks. Among local processes, only those of
  // our user and root may connect. Error: system (port taken, or out of descriptors or threads).
  [[nodiscard]] static Result<std::unique_ptr<ServedStore>> open(const std::string& host,
                                                                 std::uint16_t port);
  ServedStore(const ServedStore&) = delete;
  ServedStore& operator=(const ServedStore&) = delete;
  ~ServedStore();

  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Impl;
  explicit ServedStore(std::unique_ptr<Impl> impl);
  [[nodiscard]] static Result<std::unique_ptr<ServedStore>> try_open(const std::string& address,
                                                                     std::uint16_t port);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::collective
