// SPDX-License-Identifier: Apache-2.0
// Looks up the functions of libmuster_collective.so by name. Python has already loaded that
// library, so this module need not be linked against it. Turns the library's errors into
// exceptions.
#pragma once

#include "muster/collective.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include <dlfcn.h>

namespace muster::torch_backend {

struct Library {
  decltype(&muster_run) run = nullptr;
  decltype(&muster_alloc) alloc = nullptr;
  decltype(&muster_free) free = nullptr;
  decltype(&muster_abort) abort = nullptr;
  decltype(&muster_work_done) work_done = nullptr;
  decltype(&muster_work_wait) work_wait = nullptr;
  decltype(&muster_work_free) work_free = nullptr;
  decltype(&muster_last_error) last_error = nullptr;
  decltype(&muster_last_error_text) last_error_text = nullptr;
};

inline Library& library() {
  static Library loaded;
  return loaded;
}

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr) {
    throw std::runtime_error(std::string("muster: the collective library has no function ") + name +
                             ", so it is older than this Python package");
  }
}

// path: the library's path. std::runtime_error: the library cannot be loaded, or is too old.
inline void load(const std::string& path) {
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw std::runtime_error(std::string("muster: ") + ::dlerror());
  }
  Library& l = library();
  find(handle, "muster_run", l.run);
  find(handle, "muster_alloc", l.alloc);
  find(handle, "muster_free", l.free);
  find(handle, "muster_abort", l.abort);
  find(handle, "muster_work_done", l.work_done);
  find(handle, "muster_work_wait", l.work_wait);
  find(handle, "muster_work_free", l.work_free);
  find(handle, "muster_last_error", l.last_error);
  find(handle, "muster_last_error_text", l.last_error_text);
}

// An error from the library. In Python it is a muster.Error; where PyTorch waits in C++, it is a
// RuntimeError with the same text.
struct Failure : std::runtime_error {
  Failure(const muster_error& about, const std::string& text)
      : std::runtime_error(text), about(about) {}

  muster_error about;
};

// This thread's last error. timeout_ms: the operation's timeout, used in the message prefix of
// PyTorch's backends; negative if the message needs no prefix.
inline Failure last_failure(std::int64_t timeout_ms = -1) {
  muster_error about{};
  about.size = sizeof(about);
  library().last_error(&about);
  std::string text(library().last_error_text(nullptr, 0) + 1, '\0');
  text.resize(std::min(library().last_error_text(text.data(), text.size()), text.size() - 1));
  if (about.code == MUSTER_E_TIMEOUT && about.rank >= 0 && timeout_ms >= 0) {
    text = "muster: Timed out waiting " + std::to_string(timeout_ms) + "ms: " + text;
  }
  return Failure(about, text);
}

}  // namespace muster::torch_backend
