// SPDX-License-Identifier: Apache-2.0
// SharedMemory: anonymous memory (a memfd) mapped by several processes on one host. The kernel
// frees it when the last of them exits or dies. Users of one memfd within a process share a
// mapping. Resource type; copying the handle is cheap. Any thread.
#pragma once

#include "base/fd.hpp"
#include "collective/error.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace muster::collective {

// Error: system, if the file size limit is too low; the kernel would otherwise send SIGXFSZ.
[[nodiscard]] Result<void> allowed_by_file_limit(std::size_t bytes);

class SharedMemory {
 public:
  // The memory is zeroed. The kernel allocates its pages when they are touched or reserved. `name`
  // appears in /proc/PID/fd.
  [[nodiscard]] static Result<SharedMemory> create(const std::string& name, std::size_t bytes);
  // Opens all of the memory to which a descriptor refers. The descriptor usually comes from another
  // process.
  [[nodiscard]] static Result<SharedMemory> attach(UniqueFd fd);

  [[nodiscard]] int fd() const;
  [[nodiscard]] std::size_t size() const;

  // The first call maps the memory.
  [[nodiscard]] Result<char*> map();

  // Allocates the pages now, so that running out of memory causes an error here instead of a
  // signal later.
  [[nodiscard]] Result<void> reserve(std::size_t offset, std::size_t bytes);
  // Frees the pages; they read as zeros after that.
  void drop(std::size_t offset, std::size_t bytes);

 private:
  struct Mapping;

  explicit SharedMemory(std::shared_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

  std::shared_ptr<Mapping> mapping_;
};

}  // namespace muster::collective
