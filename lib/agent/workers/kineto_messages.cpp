// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/kineto_messages.hpp"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace muster {
namespace {

struct Header {
  std::uint64_t size = 0;  // of the data
  std::array<char, 32> type{};
};

// The first recorded step is a multiple of this number. Rounding up makes it likely that ranks that
// receive the request at different times record the same steps.
constexpr int kStepMultiple = 10;

// Prepares CUPTI before the first recorded operation.
constexpr int kWarmUpSeconds = 1;

}  // namespace

std::optional<KinetoMessage> decode_kineto(std::string_view datagram) {
  Header header;
  if (datagram.size() < sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, datagram.data(), sizeof(header));
  const std::string_view data = datagram.substr(sizeof(header));
  const std::string_view type(header.type.data(), header.type.size());
  const auto end = type.find('\0');
  if (header.size != data.size() || end == std::string_view::npos) {
    return std::nullopt;
  }
  return KinetoMessage{std::string(type.substr(0, end)), std::string(data)};
}

std::string encode_kineto(const KinetoMessage& message) {
  Header header{.size = message.data.size()};
  message.type.copy(header.type.data(), header.type.size() - 1);
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + message.data;
}

std::string kineto_configuration(const ProfileRequest& request) {
  const std::string file = fmt::format("ACTIVITIES_LOG_FILE={}\n", request.file);
  if (request.steps > 0) {
    return file + fmt::format(
                      "PROFILE_START_ITERATION=0\n"
                      "PROFILE_START_ITERATION_ROUNDUP={}\n"
                      "ACTIVITIES_ITERATIONS={}\n",
                      kStepMultiple,
                      request.steps);
  }
  return file + fmt::format(
                    "PROFILE_START_TIME={}\n"
                    "ACTIVITIES_WARMUP_PERIOD_SECS={}\n"
                    "ACTIVITIES_DURATION_MSECS={}\n",
                    request.start,
                    kWarmUpSeconds,
                    request.milliseconds);
}

}  // namespace muster
