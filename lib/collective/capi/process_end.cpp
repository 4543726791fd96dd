// SPDX-License-Identifier: Apache-2.0
// When Python exits, it calls pthread_exit in every other thread that requests the GIL. If such a
// thread then unwinds through noexcept C++ frames, such as PyTorch code that reacquires the GIL,
// std::terminate aborts the whole process. Python 3.14 lets these threads hang instead
// (https://github.com/python/cpython/issues/87135); this file does the same for earlier versions.
#include "muster/collective.h"

#include <atomic>
#include <exception>
#include <typeinfo>

#include <dlfcn.h>
#include <unistd.h>

namespace {

using SetTerminate = std::terminate_handler (*)(std::terminate_handler);
using CurrentExceptionType = const std::type_info* (*)();

std::atomic<pid_t> ending_thread{0};
std::atomic<std::terminate_handler> earlier_handler{nullptr};
std::atomic<CurrentExceptionType> current_exception_type{nullptr};

// The terminate handler. Suspends threads that Python unwinds at exit; in all other cases,
// termination proceeds as usual.
void stay() {
  const auto type = current_exception_type.load();
  while (ending_thread.load() != ::gettid() && type() == nullptr) {
    ::pause();
  }
  if (const auto handler = earlier_handler.load()) {
    handler();
  }
}

}  // namespace

extern "C" void muster_process_ends(void) {
  if (ending_thread.exchange(::gettid()) != 0) {
    return;
  }
  // This library has a private copy of libstdc++; other libraries share the system's copy.
  void* const cxx = ::dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (cxx == nullptr) {
    return;
  }
  const auto set_terminate =
      reinterpret_cast<SetTerminate>(::dlsym(cxx, "_ZSt13set_terminatePFvvE"));
  current_exception_type.store(
      reinterpret_cast<CurrentExceptionType>(::dlsym(cxx, "__cxa_current_exception_type")));
  if (set_terminate != nullptr && current_exception_type.load() != nullptr) {
    earlier_handler.store(set_terminate(&stay));
  }
}
