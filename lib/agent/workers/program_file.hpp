// SPDX-License-Identifier: Apache-2.0
// ProgramFile: notices that the file of the user's program has changed since the workers were
// started. A replacement would run the new text, while the other workers run the old one.
#pragma once

#include "agent/events/event_stream.hpp"
#include "config/launch_config.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace muster {

class ProgramFile final : public EventSink {
 public:
  // Does not look at Python modules, nor at programs that are found in PATH.
  explicit ProgramFile(const Program& program);

  // Each round starts the workers again.
  void take(const JobEvent& event) override;

  // Empty if the file is the same, else the reason why no worker can be replaced on its own.
  [[nodiscard]] std::string change() const;

 private:
  using Identity = std::array<std::int64_t, 3>;

  // All zero if the file does not exist; empty if that is unknown (a file server is down).
  [[nodiscard]] static std::optional<Identity> identity(const std::string& path);

  std::string path_;  // empty if there is nothing to compare
  std::optional<Identity> at_start_;
};

}  // namespace muster
