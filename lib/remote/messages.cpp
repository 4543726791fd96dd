// SPDX-License-Identifier: Apache-2.0
#include "remote/messages.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

namespace muster {
namespace {

std::unexpected<Error> unreadable(const char* what) {
  return failure(Errc::protocol, std::string("received an invalid ") + what + " message");
}

std::optional<std::int64_t> number(const std::string& text, std::int64_t max) {
  const auto value = parse_int(text);
  return value && *value >= 0 && *value <= max ? value : std::nullopt;
}

constexpr std::int64_t kPortMax = std::numeric_limits<std::uint16_t>::max();
constexpr std::int64_t kFanoutMax = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kSecondsMax = std::numeric_limits<std::int32_t>::max();

// The elements [from, from + count) of a list, which must have at least from + count elements.
std::vector<std::string> part(const std::vector<std::string>& texts,
                              std::size_t from,
                              std::size_t count) {
  const auto begin = texts.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

std::string encode(const SetupMessage& message) {
  std::vector<std::string> texts{std::to_string(message.host),
                                 message.name,
                                 message.binds ? "1" : "0",
                                 message.port_range,
                                 std::to_string(message.fanout),
                                 message.command,
                                 std::to_string(message.rsh.size()),
                                 std::to_string(message.retry_seconds)};
  std::ranges::copy(message.rsh, std::back_inserter(texts));
  std::ranges::copy(message.targets, std::back_inserter(texts));
  return pack(texts);
}

Result<SetupMessage> decode_setup(std::string_view payload) {
  constexpr std::size_t kFixed = 8;
  const auto texts = unpack(payload);
  MUSTER_RETURN_IF_ERROR(texts);
  if (texts->size() < kFixed) {
    return unreadable("setup");
  }
  const auto host = number((*texts)[0], kPortMax);
  const auto fanout = number((*texts)[4], kFanoutMax);
  const auto words = number((*texts)[6], static_cast<std::int64_t>(texts->size() - kFixed));
  const auto retry = number((*texts)[7], kSecondsMax);
  if (!host || !fanout || !words || !retry) {
    return unreadable("setup");
  }
  const auto count = static_cast<std::size_t>(*words);
  SetupMessage out;
  out.host = static_cast<std::uint16_t>(*host);
  out.name = (*texts)[1];
  out.binds = (*texts)[2] == "1";
  out.port_range = (*texts)[3];
  out.fanout = static_cast<int>(*fanout);
  out.command = (*texts)[5];
  out.retry_seconds = static_cast<int>(*retry);
  out.rsh = part(*texts, kFixed, count);
  out.targets = part(*texts, kFixed + count, texts->size() - kFixed - count);
  return out;
}

std::string encode(const HelloMessage& message) {
  return pack({message.version, message.address, std::to_string(message.port), message.caller});
}

Result<HelloMessage> decode_hello(std::string_view payload) {
  const auto texts = unpack(payload);
  MUSTER_RETURN_IF_ERROR(texts);
  const auto port = texts->size() == 4 ? number((*texts)[2], kPortMax) : std::nullopt;
  if (!port) {
    return unreadable("hello");
  }
  return HelloMessage{(*texts)[0], (*texts)[1], static_cast<std::uint16_t>(*port), (*texts)[3]};
}

std::string encode(const StartMessage& message) {
  std::vector<std::string> texts{message.folder,
                                 std::to_string(message.args.size()),
                                 message.token,
                                 message.one_sink ? "1" : "0"};
  std::ranges::copy(message.args, std::back_inserter(texts));
  std::ranges::copy(message.environment, std::back_inserter(texts));
  return pack(texts);
}

Result<StartMessage> decode_start(std::string_view payload) {
  constexpr std::size_t kFixed = 4;
  const auto texts = unpack(payload);
  MUSTER_RETURN_IF_ERROR(texts);
  const auto words = texts->size() < kFixed
                         ? std::nullopt
                         : number((*texts)[1], static_cast<std::int64_t>(texts->size() - kFixed));
  if (!words) {
    return unreadable("start");
  }
  const auto count = static_cast<std::size_t>(*words);
  return StartMessage{(*texts)[0],
                      part(*texts, kFixed, count),
                      part(*texts, kFixed + count, texts->size() - kFixed - count),
                      (*texts)[2],
                      (*texts)[3] == "1"};
}

}  // namespace muster
