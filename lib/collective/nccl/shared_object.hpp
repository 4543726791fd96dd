// SPDX-License-Identifier: Apache-2.0
// Shared libraries opened at run time, with symbol lookup by name. They are never closed, because
// NCCL and the CUDA driver keep threads running. Used by NcclLibrary and CudaDriver. Any thread.
#pragma once

#include "collective/error.hpp"

#include <string>

namespace muster::collective::nccl {

struct SharedObject {
  void* handle = nullptr;
  std::string path;  // the file chosen by the dynamic linker
};

// Opens a path, or a plain name found by the dynamic linker. Error: unsupported, with the dynamic
// linker's message.
[[nodiscard]] Result<SharedObject> open_shared_object(const std::string& name);

// Opens the copy that this process has already loaded. Error: unsupported.
[[nodiscard]] Result<SharedObject> loaded_shared_object(const std::string& soname);

// Null if the symbol does not exist.
[[nodiscard]] void* find_symbol(const SharedObject& object, const char* name);

}  // namespace muster::collective::nccl
