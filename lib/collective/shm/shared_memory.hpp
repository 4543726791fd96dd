// SPDX-License-Identifier: Apache-2.0
// SharedMemory: memory without a name (a memfd) that processes of one host map; it is gone with
// the last of them, however they end. Within a process all users of one memfd share one mapping.
// Resource type; cheap to copy the handle. Any thread.
#pragma once

#include "base/fd.hpp"
#include "collective/error.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace muster::collective {

// Error: system, where the process may not make files so large: the kernel would end it by SIGXFSZ.
[[nodiscard]] Result<void> allowed_by_file_limit(std::size_t bytes);

class SharedMemory {
 public:
  // Zeroed. Takes no memory until it is touched or reserved; `name` is for /proc/PID/fd.
  [[nodiscard]] static Result<SharedMemory> create(const std::string& name, std::size_t bytes);
  // What another process created, all of it.
  [[nodiscard]] static Result<SharedMemory> attach(UniqueFd fd);

  [[nodiscard]] int fd() const;
  [[nodiscard]] std::size_t size() const;

  // Mapped at the first call.
  [[nodiscard]] Result<char*> map();

  // Takes the memory now, so that a machine that has none says so here and not by a signal later.
  [[nodiscard]] Result<void> reserve(std::size_t offset, std::size_t bytes);
  // Gives it back; it reads as zeros then.
  void drop(std::size_t offset, std::size_t bytes);

 private:
  struct Mapping;

  explicit SharedMemory(std::shared_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

  std::shared_ptr<Mapping> mapping_;
};

}  // namespace muster::collective
