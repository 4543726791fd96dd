// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/resource.h>

namespace muster {

Error Error::during(std::string_view what) const {
  return Error{code, std::string(what) + ": " + message};
}

std::unexpected<Error> failure(Errc code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

std::string errno_text(int errno_value) {
  return std::generic_category().message(errno_value);
}

Error system_error(std::string_view what, int errno_value) {
  rlimit limit{};
  if (errno_value == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    return Error{Errc::exhausted,
                 std::string(what) + ": " + errno_text(errno_value) + "; the limit is " +
                     std::to_string(limit.rlim_cur) + " (ulimit -n)"};
  }
  return Error{Errc::system, std::string(what) + ": " + errno_text(errno_value)};
}

}  // namespace muster
