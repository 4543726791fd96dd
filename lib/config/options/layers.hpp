// SPDX-License-Identifier: Apache-2.0
// Layers: each setting's text from the strongest source that has one, with its origin, and checked
// as a single value. What settings mean together is resolve's. Pure.
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
  // `files`: the strongest first.
  [[nodiscard]] static Result<Layers> collect(const CommandLine& line,
                                              const Environ& environ,
                                              const std::vector<FileValues>& files);

  [[nodiscard]] const Setting& of(OptionId id) const;

  [[nodiscard]] const std::string& text(OptionId id) const { return of(id).text; }

  // What the platform says, where no stronger source has a value.
  void add(OptionId id, std::string text, std::string origin);

  // Stronger than all: another node's view.
  void replace(OptionId id, std::string text, std::string origin);

  // Any source but the default.
  [[nodiscard]] bool is_given(OptionId id) const;

  // On the command line: what the user asked of this run, stronger than whatever the site's
  // environment or files say.
  [[nodiscard]] bool is_typed(OptionId id) const;

  [[nodiscard]] bool is_on(OptionId id) const { return text(id) == "1"; }

  // For kind integer; the text was checked already.
  [[nodiscard]] std::int64_t integer(OptionId id) const;

  // A usage error about this setting: "--tee=9 (from PET_TEE): <rule>".
  [[nodiscard]] std::unexpected<Error> refuse(OptionId id, std::string_view rule) const;

 private:
  std::vector<Setting> settings_;
};

}  // namespace muster
