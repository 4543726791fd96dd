// SPDX-License-Identifier: Apache-2.0
#include "trust/munge.hpp"

#include "base/printable.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

// Distinguishes our keys from other data that our user has sealed with MUNGE.
constexpr std::string_view kCredentialPurpose = "muster rendezvous key 1 ";

// Status codes from munge.h. A replayed credential is accepted: it only transports a secret between
// our own processes, and a peer that replays it does not know that secret.
constexpr std::string_view kSuccess = "0";
constexpr std::string_view kExpired = "15";
constexpr std::string_view kRewound = "16";
constexpr std::string_view kReplayed = "17";

Error useless(std::string why) {
  return Error{Errc::not_possible, "MUNGE: " + std::move(why)};
}

// Removes the prefix from a message such as "munge: Error: Failed to access …".
std::string complaint_in(std::string_view printed) {
  constexpr std::string_view kHead = "Error: ";
  const auto at = printed.find(kHead);
  if (at == std::string_view::npos) {
    return "no answer";
  }
  printed.remove_prefix(at + kHead.size());
  return printable(printed.substr(0, printed.find('\n')));
}

std::string describe_status(std::string_view status) {
  if (status == kExpired) {
    return "the credential has expired. Check the clocks of both hosts";
  }
  if (status == kRewound) {
    return "the credential is dated in the future. Check the clocks of both hosts";
  }
  return fmt::format("the credential is invalid (status {})", status);
}

// "STATUS:          0"
std::string_view value_of(std::string_view head, std::string_view key) {
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find('\n'));
    head.remove_prefix(std::min(head.size(), line.size() + 1));
    if (line.starts_with(key) && line.substr(key.size()).starts_with(':')) {
      const std::string_view value = line.substr(key.size() + 1);
      return value.substr(std::min(value.size(), value.find_first_not_of(' ')));
    }
  }
  return {};
}

}  // namespace

MungeCall seal_call(const std::string& secret, uid_t self) {
  return {{"munge", "--restrict-uid=" + std::to_string(self)},
          std::string(kCredentialPurpose) + secret};
}

MungeCall open_call(const std::string& credential) {
  return {{"unmunge", "--numeric", "--keys=STATUS,UID"}, credential};
}

Result<std::string> take_credential(std::string_view printed) {
  constexpr std::string_view kHead = "MUNGE:";
  const std::string_view line = printed.substr(0, printed.find('\n'));
  if (!line.starts_with(kHead) || !line.ends_with(':') || line == kHead) {
    return std::unexpected(useless(complaint_in(printed)));
  }
  return std::string(line);
}

Result<std::string> take_secret(std::string_view printed, uid_t self) {
  constexpr std::string_view kBetween = "\n\n";
  const auto status_at = printed.find("STATUS:");
  const auto end = printed.find(kBetween, std::min(status_at, printed.size()));
  if (status_at == std::string_view::npos || end == std::string_view::npos) {
    return std::unexpected(useless(complaint_in(printed)));
  }
  const std::string_view head = printed.substr(status_at, end - status_at);
  const std::string_view status = value_of(head, "STATUS");
  if (status != kSuccess && status != kReplayed) {
    return std::unexpected(useless(describe_status(status)));
  }
  const std::string_view user = value_of(head, "UID");
  if (user != std::to_string(self)) {
    return std::unexpected(useless(fmt::format("the credential was created by user {}", user)));
  }
  std::string_view secret = printed.substr(end + kBetween.size());
  if (!secret.starts_with(kCredentialPurpose)) {
    return std::unexpected(useless("the credential was created for another purpose"));
  }
  secret.remove_prefix(kCredentialPurpose.size());
  // The program's message about a replay, printed on standard error, may follow.
  return std::string(secret.substr(0, secret.find_first_not_of("0123456789abcdef")));
}

}  // namespace muster
