// SPDX-License-Identifier: Apache-2.0
// Candidate locations of libnccl and the CUDA driver, best first: the user's choice, the copy that
// the process has already loaded (PyTorch and we must share one), the wheel next to the current
// Python, the dynamic linker's search path, the CUDA toolkit. Used by NcclLibrary and CudaDriver.
// Pure: the caller passes a function that lists folders.
#pragma once

#include "base/environ.hpp"

#include <functional>
#include <string>
#include <vector>

namespace muster::collective::nccl {

struct Place {
  enum class Kind { named, loaded, file, linker };
  Kind kind = Kind::linker;
  std::string name;  // a path or a plain soname
  bool operator==(const Place&) const = default;
};

// Names (not paths) in a folder; empty if the folder does not exist.
using FolderLister = std::function<std::vector<std::string>(const std::string& folder)>;

// Properties of the process: its environment, the program name as invoked, and the file system. The
// executable's path would not reveal the virtual environment, because its Python is a symlink.
struct Surroundings {
  Environ environ;
  std::string program;
  FolderLister list;
};

// If one of these variables names a file, other candidates are ignored.
inline constexpr const char* kNcclVariable = "MUSTER_NCCL_LIBRARY";
inline constexpr const char* kCudaVariable = "MUSTER_CUDA_LIBRARY";
inline constexpr const char* kCudaSoname = "libcuda.so.1";

[[nodiscard]] std::vector<Place> nccl_places(const Surroundings& surroundings);
[[nodiscard]] std::vector<Place> cuda_places(const Surroundings& surroundings);

// Examples: "the loaded libnccl.so.2" or "/opt/nccl/libnccl.so.2 (MUSTER_NCCL_LIBRARY)"; for
// messages.
[[nodiscard]] std::string describe(const Place& place);

// The properties of this process.
[[nodiscard]] Surroundings this_process();

}  // namespace muster::collective::nccl
