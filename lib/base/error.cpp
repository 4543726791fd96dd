// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <system_error>
#include <utility>

namespace muster {

Error Error::during(std::string_view what) const {
  return Error{code, std::string(what) + ": " + message};
}

std::unexpected<Error> failure(Errc code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

std::string errno_words(int errno_value) {
  return std::generic_category().message(errno_value);
}

Error system_error(std::string_view what, int errno_value) {
  return Error{Errc::system, std::string(what) + ": " + errno_words(errno_value)};
}

}  // namespace muster
