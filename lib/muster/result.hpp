// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error. C++17, so that CUDA sources can include it; converts to and from
// std::expected where available. Value types.
#pragma once

#include "muster/collective.h"

#include <cassert>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_expected
#include <expected>
#endif

namespace muster {
inline namespace v1 {

// Kinds of failure; the numbers are in collective_types.h.
enum class Errc : int {
  ok = 0,
  timeout = MUSTER_E_TIMEOUT,          // Error::rank is the first missing rank
  peer_failed = MUSTER_E_PEER_FAILED,  // Error::rank died, or its host is unreachable
  aborted = MUSTER_E_ABORTED,          // a rank called abort()
  mismatch = MUSTER_E_MISMATCH,        // ranks passed different arguments
  invalid_argument = MUSTER_E_INVALID_ARGUMENT,
  invalid_state = MUSTER_E_INVALID_STATE,  // communicator is dead, or was created before a fork
  unsupported = MUSTER_E_UNSUPPORTED,      // not supported by this backend or machine
  store = MUSTER_E_STORE,                  // the rendezvous store failed
  system = MUSTER_E_SYSTEM,                // Error::native is errno
  cuda = MUSTER_E_CUDA,                    // Error::native is the CUresult
  nccl = MUSTER_E_NCCL,                    // Error::native is the ncclResult_t
};

// Example: "peer_failed".
[[nodiscard]] inline const char* name_of(Errc code) {
  return muster_error_name(static_cast<int>(code));
}

struct Error {
  Errc code = Errc::ok;
  int rank = -1;  // failed rank, if known; -1 for no particular rank
  int native = 0;
  std::uint64_t epoch = 0;  // the communicator's epoch
  std::uint64_t seq = 0;    // operation number; 0 if not in an operation
  std::string text = {};    // one sentence: what failed, on which rank, why
};

// Usage: `return failure(Errc::invalid_argument, "…");`
[[nodiscard]] inline Error failure(Errc code, std::string text) {
  Error error;
  error.code = code;
  error.text = std::move(text);
  return error;
}

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Error;

  template <class U = T,
            class = std::enable_if_t<std::is_convertible_v<U&&, T> &&
                                     !std::is_same_v<std::decay_t<U>, Error> &&
                                     !std::is_same_v<std::decay_t<U>, Result>>>
  Result(U&& value)  // NOLINT: like std::expected
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}

  Result(Error error)  // NOLINT(google-explicit-constructor): `return result.error();`
      : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }

  explicit operator bool() const noexcept { return has_value(); }

  // Requires has_value().
  [[nodiscard]] T& operator*() & { return ref(state_); }

  [[nodiscard]] const T& operator*() const& { return ref(state_); }

  [[nodiscard]] T&& operator*() && { return std::move(ref(state_)); }

  [[nodiscard]] T* operator->() { return &ref(state_); }

  [[nodiscard]] const T* operator->() const { return &ref(state_); }

  // Requires !has_value().
  [[nodiscard]] const Error& error() const { return *std::get_if<1>(&state_); }

  template <class U>
  [[nodiscard]] T value_or(U&& otherwise) const {
    return has_value() ? **this : static_cast<T>(std::forward<U>(otherwise));
  }

#ifdef __cpp_lib_expected
  Result(std::expected<T, Error> from)  // NOLINT(google-explicit-constructor): same semantics
      : state_(from ? State(std::in_place_index<0>, std::move(*from))
                    : State(std::in_place_index<1>, std::move(from.error()))) {}

  operator std::expected<T, Error>() && {  // NOLINT(google-explicit-constructor): same semantics
    return has_value() ? std::expected<T, Error>(std::move(**this))
                       : std::expected<T, Error>(std::unexpect, error());
  }
#endif

 private:
  using State = std::variant<T, Error>;

  template <class S>
  static auto& ref(S& state) {
    assert(state.index() == 0 && "this Result holds an error");
    return *std::get_if<0>(&state);
  }

  State state_;
};

// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  using error_type = Error;

  Result() = default;

  Result(Error error)  // NOLINT(google-explicit-constructor): `return result.error();`
      : error_(std::move(error)), failed_(true) {}

  [[nodiscard]] bool has_value() const noexcept { return !failed_; }

  explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] const Error& error() const { return error_; }

#ifdef __cpp_lib_expected
  Result(std::expected<void, Error> from)  // NOLINT(google-explicit-constructor): same semantics
      : error_(from ? Error{} : std::move(from.error())), failed_(!from) {}

  operator std::expected<void, Error>() const {  // NOLINT(google-explicit-constructor): as above
    return failed_ ? std::expected<void, Error>(std::unexpect, error_)
                   : std::expected<void, Error>();
  }
#endif

 private:
  Error error_;
  bool failed_ = false;
};

namespace detail {

// The error of this thread's last failed call.
[[nodiscard]] inline Error last_error() {
  muster_error all{};
  all.size = sizeof(all);
  muster_last_error(&all);
  std::string text(muster_last_error_text(nullptr, 0), '\0');
  muster_last_error_text(text.data(), text.size() + 1);
  return {static_cast<Errc>(all.code), all.rank, all.native, all.epoch, all.seq, std::move(text)};
}

[[nodiscard]] inline Result<void> result_of(int code) {
  return code == 0 ? Result<void>() : Result<void>(last_error());
}

}  // namespace detail
}  // namespace v1
}  // namespace muster
