// SPDX-License-Identifier: Apache-2.0
// Layers: the text and the origin of each setting, from the source with the highest precedence.
// Values are checked one by one; resolve() checks rules that involve several settings. Pure.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "config/options/command_line.hpp"
#include "config/options/settings.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

enum class Source {
  command_line,
  muster_variable,
  pet_variable,
  config_file,
  platform,
  default_value
};

struct Setting {
  std::string text;
  Source source = Source::default_value;
  std::string origin;  // "command line", "PET_NNODES", "config file job.toml", "default"
};

struct FileValues {
  std::string path;
  std::map<OptionId, std::string> values;
};

class Layers {
 public:
  // `files` are in descending order of precedence.
  [[nodiscard]] static Result<Layers> collect(const CommandLine& line,
                                              const Environ& environ,
                                              const std::vector<FileValues>& files);

  [[nodiscard]] const Setting& of(OptionId id) const;

  [[nodiscard]] const std::string& text(OptionId id) const { return of(id).text; }

  // Sets a value from the platform, unless a source with higher precedence has set one.
  void add(OptionId id, std::string text, std::string origin);

  // Overrides all sources. Used to show the settings of another node.
  void replace(OptionId id, std::string text, std::string origin);

  // True if any source except the default has set the option.
  [[nodiscard]] bool is_given(OptionId id) const;

  // True only if the option was set on the command line. Such an option is an explicit choice for
  // this run, whereas the environment or a file may contain site defaults.
  [[nodiscard]] bool is_typed(OptionId id) const;

  [[nodiscard]] bool is_on(OptionId id) const { return text(id) == "1"; }

  // Call only for options of kind integer. The text has already been checked.
  [[nodiscard]] std::int64_t integer(OptionId id) const;

  // A usage error for this setting: "--tee=9 (from PET_TEE): <rule>".
  [[nodiscard]] std::unexpected<Error> refuse(OptionId id, std::string_view rule) const;

 private:
  std::vector<Setting> settings_;
};

}  // namespace muster
