// SPDX-License-Identifier: Apache-2.0
#include "collective/error.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>

#include <sys/resource.h>

namespace muster::collective {
namespace {

// Describes the limit that the process has reached, and how to raise it.
std::string limit_of(int errno_value) {
  rlimit limit{};
  if (errno_value != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return "";
  }
  return fmt::format(" (limit: {} descriptors; raise it with ulimit -n)", limit.rlim_cur);
}

}  // namespace

bool is_fatal(Errc code) {
  switch (code) {
    case Errc::timeout:
    case Errc::peer_failed:
    case Errc::aborted:
    case Errc::mismatch:
    case Errc::system:
    case Errc::cuda:
    case Errc::nccl:
      return true;
    case Errc::ok:
    case Errc::invalid_argument:
    case Errc::invalid_state:
    case Errc::unsupported:
    case Errc::store:
      return false;
  }
  return true;
}

std::string_view name_of(Errc code) {
  constexpr std::array<std::string_view, 12> kNames{"ok",
                                                    "timeout",
                                                    "peer_failed",
                                                    "aborted",
                                                    "mismatch",
                                                    "invalid_argument",
                                                    "invalid_state",
                                                    "unsupported",
                                                    "store",
                                                    "system",
                                                    "cuda",
                                                    "nccl"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "?";
}

Error wrap(Errc code, std::string_view doing, const muster::Error& error) {
  return Error{.code = code, .text = std::string(doing) + ": " + error.message};
}

Error system_failure(std::string_view doing, int errno_value) {
  return Error{.code = Errc::system,
               .native = errno_value,
               .text = std::string(doing) + ": " + errno_text(errno_value) + limit_of(errno_value)};
}

}  // namespace muster::collective
