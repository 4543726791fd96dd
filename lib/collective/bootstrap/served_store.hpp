// SPDX-License-Identifier: Apache-2.0
// ServedStore: a store server in a thread of this process, for rank 0 of a job that no launcher
// serves one for. Resource type.
#pragma once

#include "collective/error.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace muster::collective {

class ServedStore {
 public:
  // Listens where `host` is if that is an address of this machine, and else everywhere: a name may
  // mean another address to the other ranks. On this machine our user's processes can connect, and
  // root's. Error: system: the port is taken, or the process has no descriptors or threads left.
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
