// SPDX-License-Identifier: Apache-2.0
// ProgramFile: notices that the file of the user's program has changed since the workers were
// started. A replacement would run the new text, while the other workers run the old one.
#pragma once

#include "agent/events/event_stream.hpp"
#include "config/launch_config.hpp"

#include <array>
#include <cstdint>
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
  using Identity = std::array<std::int64_t, 5>;

  // All zero if the file cannot be found.
  [[nodiscard]] static Identity identity(const std::string& path);

  std::string path_;  // empty if there is nothing to compare
  Identity at_start_{};
};

}  // namespace muster
