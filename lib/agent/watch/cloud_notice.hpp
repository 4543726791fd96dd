// SPDX-License-Identifier: Apache-2.0
// CloudNotice: asks the metadata service of a cloud whether this machine will be preempted. It says
// what to ask next, and understands the answers. Used by CloudWatch. Pure; value.
// Sources: "Spot Instance interruption notices" and "Use IMDSv2" (AWS), "Detect if a VM is
// preempted" (Google Cloud), "Scheduled Events for Linux VMs" (Azure).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

struct CloudAnswer {
  int status = 0;  // of HTTP; 0 without an answer
  std::string body;
};

struct CloudVerdict {
  bool is_preempted = false;
  std::optional<std::int64_t> unix_time{};  // at which the machine stops, if the cloud says so
  std::string problem{};                    // why the answer is not usable; empty if it is
};

class CloudNotice {
 public:
  // `source`: "aws", "azure", "gcp" or a URL.
  explicit CloudNotice(std::string source) : source_(std::move(source)) {}

  // The next request, as a configuration for `curl --config`. It may contain a secret.
  [[nodiscard]] std::string request() const;

  // The answer to this request. If it is only needed for the next one, is_ready() is false before
  // and true after this call.
  [[nodiscard]] CloudVerdict take(const CloudAnswer& answer);

  // False if the cloud must first be asked for something else: a token, or this machine's name.
  [[nodiscard]] bool is_ready() const;

 private:
  [[nodiscard]] CloudVerdict prepare(const CloudAnswer& answer);
  [[nodiscard]] CloudVerdict judge(const CloudAnswer& answer);

  std::string source_;
  std::string key_;  // AWS: the token of the session; Azure: the name of this machine
};

// "2026-11-30T08:22:00Z" or "Mon, 30 Nov 2026 08:22:00 GMT", in seconds since 1970.
[[nodiscard]] std::optional<std::int64_t> parse_cloud_time(std::string_view text);

}  // namespace muster
