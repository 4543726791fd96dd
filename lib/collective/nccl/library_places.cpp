// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/library_places.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>

namespace muster::collective::nccl {
namespace {

constexpr const char* kNcclName = "libnccl.so.2";

// Prefixes of Python installations that this process may belong to.
std::vector<std::string> python_prefixes(const Surroundings& from) {
  std::vector<std::string> prefixes;
  const auto add = [&](std::string prefix) {
    if (!prefix.empty() && std::ranges::find(prefixes, prefix) == prefixes.end()) {
      prefixes.push_back(std::move(prefix));
    }
  };
  const std::filesystem::path program(from.program);
  if (program.filename().native().starts_with("python")) {
    add(program.parent_path().parent_path().string());
  }
  add(from.environ.get("VIRTUAL_ENV").value_or(""));
  add(from.environ.get("CONDA_PREFIX").value_or(""));
  return prefixes;
}

void add_wheels(const Surroundings& from, std::vector<Place>& places) {
  for (const auto& prefix : python_prefixes(from)) {
    const std::filesystem::path folder = std::filesystem::path(prefix) / "lib";
    for (const auto& name : from.list(folder.string())) {
      if (name.starts_with("python3")) {
        const auto file = folder / name / "site-packages/nvidia/nccl/lib" / kNcclName;
        places.push_back({Place::Kind::file, file.string()});
      }
    }
  }
}

void add_toolkit(const Surroundings& from, std::vector<Place>& places) {
  std::vector<std::string> roots;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (auto root = from.environ.get(variable); root && !root->empty()) {
      roots.push_back(*std::move(root));
    }
  }
  roots.emplace_back("/usr/local/cuda");
  for (const auto& root : roots) {
    for (const char* folder : {"/lib64/", "/lib/"}) {
      places.push_back({Place::Kind::file, root + folder + kNcclName});
    }
  }
}

std::vector<Place> named(const Surroundings& from, const char* variable) {
  const auto path = from.environ.get(variable);
  return path && !path->empty() ? std::vector<Place>{{Place::Kind::named, *path}}
                                : std::vector<Place>{};
}

}  // namespace

std::vector<Place> nccl_places(const Surroundings& surroundings) {
  auto places = named(surroundings, kNcclVariable);
  if (places.empty()) {
    places.push_back({Place::Kind::loaded, kNcclName});
    add_wheels(surroundings, places);
    places.push_back({Place::Kind::linker, kNcclName});
    add_toolkit(surroundings, places);
  }
  return places;
}

std::vector<Place> cuda_places(const Surroundings& surroundings) {
  auto places = named(surroundings, kCudaVariable);
  if (places.empty()) {
    places = {{Place::Kind::loaded, kCudaSoname}, {Place::Kind::linker, kCudaSoname}};
  }
  return places;
}

std::string describe(const Place& place) {
  switch (place.kind) {
    case Place::Kind::named:
      return place.name + " (set in the environment)";
    case Place::Kind::loaded:
      return "a loaded " + place.name;
    case Place::Kind::linker:
      return place.name + " in the dynamic linker's search path";
    case Place::Kind::file:
      break;
  }
  return place.name;
}

Surroundings this_process() {
  Surroundings found{.environ = Environ::from_block(::environ), .program = {}, .list = {}};
  std::ifstream cmdline("/proc/self/cmdline", std::ios::binary);
  std::getline(cmdline, found.program, '\0');
  found.list = [](const std::string& folder) {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  };
  return found;
}

}  // namespace muster::collective::nccl
