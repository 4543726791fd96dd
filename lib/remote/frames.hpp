// SPDX-License-Identifier: Apache-2.0
// Frames: what goes through a remote shell's standard input and output, between the launcher that
// was typed and the agents that it started on other machines. README.md has the format. The other
// end is a program of ours, but a login script may have written before it. Pure.
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
  setup = 1,     // down: the first; whose place this is, and whom it starts further down
  start,         // down: what to run
  signal,        // down, for all: a number
  hello,         // up: the agent's machine is there
  output,        // up: bytes of standard output
  error_output,  // up: bytes of standard error
  ended,         // up: the launcher there has ended; its exit code
  lost,          // up: a machine further down cannot be reached, or no longer; why
  beat,          // up: nothing, so that a dead connection is noticed
  credit,        // down: how many more bytes of output may be sent
};

struct Frame {
  RemoteFrameKind kind{};
  std::uint16_t host = 0;  // by its place in the list
  std::string payload;
  bool operator==(const Frame&) const = default;
};

// Arguments and variables of a job have to fit into one.
inline constexpr std::size_t kFrameBytesMax = std::size_t{8} * 1024 * 1024;
// What login scripts may print before the agent speaks.
inline constexpr std::size_t kNoiseBytesMax = std::size_t{64} * 1024;

// What an agent writes first.
inline constexpr std::string_view kGreeting = "muster-remote/1\n";

void append_frame(std::string& out, const Frame& frame);

class FrameReader {
 public:
  // Frames begin at once, or behind a greeting.
  explicit FrameReader(bool greeted) : greeted_(greeted) {}

  void feed(std::string_view bytes) { bytes_ += bytes; }

  // None: there is no whole one yet. Error: protocol, and nothing more is to be read.
  [[nodiscard]] Result<std::optional<Frame>> next();

  // What was printed where the greeting was expected.
  [[nodiscard]] const std::string& noise() const { return bytes_; }

  [[nodiscard]] bool greeted() const { return greeted_; }

 private:
  [[nodiscard]] Result<bool> find_greeting();

  std::string bytes_;
  bool greeted_;
};

// A list of texts as a payload.
[[nodiscard]] std::string pack(const std::vector<std::string>& texts);
[[nodiscard]] Result<std::vector<std::string>> unpack(std::string_view payload);

}  // namespace muster
