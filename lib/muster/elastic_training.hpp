// SPDX-License-Identifier: Apache-2.0
// The bridge from muster_elastic_run to a C++ function. Part of elastic.hpp, which includes it. One
// thread.
#pragma once

#include "muster/collective.hpp"

#include <exception>

namespace muster {
inline namespace v1 {
namespace elastic {
namespace detail {

// Passes a function to the C interface, and its error or exception back. The exception does not
// pass through the library.
template <class Function>
class Training {
 public:
  explicit Training(Function& function) : function_(function) {}

  // The muster_train_function; `user` is a Training.
  static int call(muster_comm* comm, void* user) noexcept {
    return static_cast<Training*>(user)->call(comm);
  }

  // The result of run(), from that of muster_elastic_run.
  [[nodiscard]] Result<void> result(int code) {
    if (code != kFailed) {
      return muster::detail::result_of(code);
    }
#ifdef __cpp_exceptions
    if (exception_) {
      std::rethrow_exception(exception_);
    }
#endif
    return error_;
  }

 private:
  // No MUSTER_E number, all of which are negative.
  static constexpr int kFailed = 1;

  int call(muster_comm* comm) {
    Communicator communicator = Communicator::borrow(comm);
#ifdef __cpp_exceptions
    exception_ = nullptr;
    try {
      return code_of(function_(communicator));
    } catch (...) {
      exception_ = std::current_exception();
      return kFailed;
    }
#else
    return code_of(function_(communicator));
#endif
  }

  int code_of(const Result<void>& done) {
    if (!done) {
      error_ = done.error();
    }
    return done ? 0 : kFailed;
  }

  Function& function_;
  Error error_;
#ifdef __cpp_exceptions
  std::exception_ptr exception_;
#endif
};

}  // namespace detail
}  // namespace elastic
}  // namespace v1
}  // namespace muster
