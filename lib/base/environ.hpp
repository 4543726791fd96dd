// SPDX-License-Identifier: Apache-2.0
// Environ: the environment as a value, read once at the start of main. muster's code never calls
// getenv.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class Environ {
 public:
  Environ() = default;

  explicit Environ(std::map<std::string, std::string, std::less<>> variables);

  // `block` is main's third argument or ::environ: a null-terminated array of "NAME=value" strings.
  [[nodiscard]] static Environ from_block(const char* const* block);

  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
  void set(std::string_view name, std::string_view value);
  void erase(std::string_view name);

  // "NAME=value" strings, sorted by name.
  [[nodiscard]] std::vector<std::string> to_block() const;

  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& all() const {
    return variables_;
  }

  bool operator==(const Environ&) const = default;

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace muster
