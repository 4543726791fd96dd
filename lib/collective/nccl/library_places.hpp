// SPDX-License-Identifier: Apache-2.0
// Where libnccl and the CUDA driver may lie, best first: what the user named, the copy that the
// process has loaded already (a worker of PyTorch and we must share one), the wheel beside the
// Python in use, the dynamic linker's own search, the CUDA toolkit. Used by the two tables. Pure:
// folders are listed through a function that the caller gives.
#pragma once

#include "base/environ.hpp"

#include <functional>
#include <string>
#include <vector>

namespace muster::collective::nccl {

struct Place {
  enum class Kind { named, loaded, file, linker };
  Kind kind = Kind::linker;
  std::string name;  // a path, or the plain soname
  bool operator==(const Place&) const = default;
};

// Names (not paths) of what a folder holds; empty if there is no such folder.
using FolderLister = std::function<std::vector<std::string>(const std::string& folder)>;

// What is asked of the process: its environment, the program's name as it was called (a virtual
// environment's Python is a link, so the executable itself says nothing), and its file system.
struct Surroundings {
  Environ environ;
  std::string program;
  FolderLister list;
};

// Variables that name a file: nothing else is tried then.
inline constexpr const char* kNcclVariable = "MUSTER_NCCL_LIBRARY";
inline constexpr const char* kCudaVariable = "MUSTER_CUDA_LIBRARY";
inline constexpr const char* kCudaSoname = "libcuda.so.1";

[[nodiscard]] std::vector<Place> nccl_places(const Surroundings& surroundings);
[[nodiscard]] std::vector<Place> cuda_places(const Surroundings& surroundings);

// "the loaded libnccl.so.2", "/opt/nccl/libnccl.so.2 (MUSTER_NCCL_LIBRARY)": for messages.
[[nodiscard]] std::string describe(const Place& place);

// Of this process, now.
[[nodiscard]] Surroundings this_process();

}  // namespace muster::collective::nccl
