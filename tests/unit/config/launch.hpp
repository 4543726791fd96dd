// SPDX-License-Identifier: Apache-2.0
// One launch to resolve: arguments before "train.py", environment variables, a machine. For the
// tests of resolve().
#pragma once

#include "base/text.hpp"
#include "config/resolve/resolve.hpp"
#include "support/catch.hpp"
#include "unit/config/fake_machine.hpp"

namespace muster {

struct Launch {
  std::vector<std::string> args;
  std::map<std::string, std::string, std::less<>> variables;
  FakeMachine machine{};
  Personality personality = Personality::muster;
  std::vector<std::string> program{"train.py"};

  [[nodiscard]] Result<Resolved> resolved() const {
    auto all = args;
    all.insert(all.end(), program.begin(), program.end());
    const auto line = parse_command_line(personality, all);
    MUSTER_RETURN_IF_ERROR(line);
    auto environment = variables;
    environment.emplace("PATH", "/opt/bin:/usr/bin");
    return resolve(*line, Environ(environment), machine);
  }

  [[nodiscard]] LaunchConfig config() const {
    const auto out = resolved();
    INFO(join(args, " "));
    if (!out) {
      FAIL(out.error().message);
    }
    return out->config;
  }

  // The error's text. Its kind must be usage unless a different kind is expected.
  [[nodiscard]] std::string error(Errc kind = Errc::usage) const {
    const auto out = resolved();
    if (out) {
      return "no error";
    }
    CHECK(out.error().code == kind);
    CHECK(out.error().message.find('\n') == std::string::npos);
    return out.error().message;
  }

  [[nodiscard]] std::vector<std::string> warnings() const { return resolved()->warnings; }
};

inline LaunchConfig config(std::vector<std::string> args) {
  return Launch{std::move(args), {}}.config();
}

inline std::string error(std::vector<std::string> args) {
  return Launch{std::move(args), {}}.error();
}

}  // namespace muster
