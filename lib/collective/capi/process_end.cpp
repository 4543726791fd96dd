// SPDX-License-Identifier: Apache-2.0
// While Python ends a process it ends every other thread that asks for its lock, by pthread_exit.
// Below C++ that may not throw, as PyTorch's code that takes the lock again, the unwinding ends in
// std::terminate, which aborts the whole process. Python 3.14 leaves such threads where they are
// (https://github.com/python/cpython/issues/87135); this does so for earlier ones.
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

// Terminations for another reason end as before.
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
  // This library has its own copy of the C++ library; the others share the system's.
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
