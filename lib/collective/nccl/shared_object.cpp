// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/shared_object.hpp"

#include <fmt/format.h>

#include <dlfcn.h>
#include <link.h>

namespace muster::collective::nccl {
namespace {

std::string path_of(void* handle, const std::string& otherwise) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) {
    return otherwise;
  }
  return *map->l_name == '\0' ? otherwise : std::string(map->l_name);
}

Result<SharedObject> open(const std::string& name, int more_flags) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | more_flags);
  if (handle != nullptr) {
    return SharedObject{handle, path_of(handle, name)};
  }
  const char* text = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
  return failure(Errc::unsupported, text == nullptr ? fmt::format("{} is not loaded", name) : text);
}

}  // namespace

Result<SharedObject> open_shared_object(const std::string& name) {
  return open(name, 0);
}

Result<SharedObject> loaded_shared_object(const std::string& soname) {
  return open(soname, RTLD_NOLOAD);
}

void* find_symbol(const SharedObject& object, const char* name) {
  return dlsym(object.handle, name);
}

}  // namespace muster::collective::nccl
