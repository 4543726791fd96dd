// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are opened while the program runs, and looked into by name. They are never
// closed again: NCCL and the CUDA driver keep threads of their own. Used by the two tables of this
// folder. Any thread.
#pragma once

#include "collective/error.hpp"

#include <string>

namespace muster::collective::nccl {

struct SharedObject {
  void* handle = nullptr;
  std::string path;  // the file that the dynamic linker took
};

// Opens a path, or a plain name by the dynamic linker's own search. Error: unsupported, with
// the dynamic linker's message.
[[nodiscard]] Result<SharedObject> open_shared_object(const std::string& name);

// The copy that this process has loaded already. Error: unsupported.
[[nodiscard]] Result<SharedObject> loaded_shared_object(const std::string& soname);

// Null if there is no such symbol.
[[nodiscard]] void* find_symbol(const SharedObject& object, const char* name);

}  // namespace muster::collective::nccl
