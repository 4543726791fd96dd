// SPDX-License-Identifier: Apache-2.0
// Frames: the messages on a remote shell's standard input and output, between the launcher and the
// agents that it started on other hosts. README.md documents the format. The other end is muster,
// but a login script may print output before muster starts. Pure.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class RemoteFrameKind : std::uint8_t {
  setup = 1,     // down, first: the receiver's index and the hosts that it must start
  start,         // down: the command to run
  signal,        // down, to all hosts: a signal number
  hello,         // up: the agent is running
  output,        // up: bytes of standard output
  error_output,  // up: bytes of standard error
  ended,         // up: the launcher on that host has exited, with its exit code
  lost,          // up: a host further down is unreachable or lost, with the reason
  beat,          // up: empty, to detect dead connections
  credit,        // down: number of further output bytes that may be sent
};

struct Frame {
  RemoteFrameKind kind{};
  std::uint16_t host = 0;  // index in the host list
  std::string payload;
  bool operator==(const Frame&) const = default;
};

// All arguments and environment variables of a job must fit into one frame.
inline constexpr std::size_t kFrameBytesMax = std::size_t{8} * 1024 * 1024;
// Limit on the output of login scripts before the greeting.
inline constexpr std::size_t kNoiseBytesMax = std::size_t{64} * 1024;

// The first bytes that an agent writes.
inline constexpr std::string_view kGreeting = "muster-remote/1\n";

void append_frame(std::string& out, const Frame& frame);

class FrameReader {
 public:
  // If `greeted`, frames start immediately, without a preceding greeting.
  explicit FrameReader(bool greeted) : greeted_(greeted) {}

  void feed(std::string_view bytes) { bytes_ += bytes; }

  // Returns none if no complete frame is available yet. Error: protocol; the caller must then stop
  // reading.
  [[nodiscard]] Result<std::optional<Frame>> next();

  // The output that was received instead of the greeting.
  [[nodiscard]] const std::string& noise() const { return bytes_; }

  [[nodiscard]] bool greeted() const { return greeted_; }

 private:
  [[nodiscard]] Result<bool> find_greeting();

  std::string bytes_;
  bool greeted_;
};

// Encodes a list of strings as a payload.
[[nodiscard]] std::string pack(const std::vector<std::string>& texts);
[[nodiscard]] Result<std::vector<std::string>> unpack(std::string_view payload);

}  // namespace muster
