// SPDX-License-Identifier: Apache-2.0
#include "config/options/layers.hpp"

#include "base/check.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "config/options/values.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

constexpr std::size_t kRefusedBytesMax = 1000;  // of a value in an error

Setting strongest(const Option& row,
                  const CommandLine& line,
                  const Environ& environ,
                  const std::vector<FileValues>& files) {
  if (const auto typed = line.options.find(row.id); typed != line.options.end()) {
    return {typed->second, Source::command_line, "command line"};
  }
  const std::string own = muster_variable(row);
  if (const auto value = environ.get(own); value && !value->empty()) {
    return {*value, Source::muster_variable, own};
  }
  // An empty variable counts as unset. torchrun would use the empty text, and would fail for an
  // empty flag or number.
  const std::string pet = pet_variable(row);
  if (const auto value = environ.get(pet); value && !value->empty()) {
    return {*value, Source::pet_variable, pet};
  }
  for (const FileValues& file : files) {
    if (const auto value = file.values.find(row.id); value != file.values.end()) {
      return {value->second, Source::config_file, "config file " + file.path};
    }
  }
  return {std::string(row.default_value), Source::default_value, "default"};
}

bool is_pet(const Setting& setting) {
  return setting.source == Source::pet_variable;
}

// Converts flags to "0" or "1". Returns the violated rule, or an empty string.
std::string normalise_flag(Setting& setting) {
  if (setting.source == Source::default_value) {
    setting.text = "0";
    return "";
  }
  const auto value =
      is_pet(setting) ? parse_number_flag(setting.text) : parse_word_flag(setting.text);
  if (!value) {
    return is_pet(setting) ? "must be 0 or 1" : "must be true or false";
  }
  setting.text = *value ? "1" : "0";
  return "";
}

std::string choice_rule(const Option& row, const Setting& setting) {
  const auto choices = split(row.choices, '|');
  // argparse does not check defaults against the choices, and torchrun passes PET_* values as
  // defaults.
  if (is_pet(setting) || std::ranges::find(choices, setting.text) != choices.end()) {
    return "";
  }
  return "must be one of " + join(choices, ", ");
}

bool is_duration(const std::string& text) {
  return text.find('-') == std::string::npos && parse_duration(trim(text)).has_value();
}

std::string normalise(const Option& row, Setting& setting) {
  if (row.kind == ValueKind::flag) {
    return normalise_flag(setting);
  }
  if (setting.source == Source::default_value) {
    return "";
  }
  switch (row.kind) {
    case ValueKind::integer:
      return parse_python_int(setting.text) ? "" : "must be a whole number";
    case ValueKind::number:
      return parse_python_float(setting.text) ? "" : "must be a number";
    case ValueKind::duration:
      return is_duration(setting.text)
                 ? ""
                 : "must be a duration of at least 0, such as 30, 0.5 or 1m30s";
    case ValueKind::choice:
      return choice_rule(row, setting);
    case ValueKind::flag:
    case ValueKind::text:
    case ValueKind::action:
      break;
  }
  return "";
}

}  // namespace

Result<Layers> Layers::collect(const CommandLine& line,
                               const Environ& environ,
                               const std::vector<FileValues>& files) {
  Layers layers;
  layers.settings_.reserve(all_options().size());
  for (const Option& row : all_options()) {
    layers.settings_.push_back(row.kind == ValueKind::action || !is_offered(row, line.personality)
                                   ? Setting{}
                                   : strongest(row, line, environ, files));
    if (const auto rule = normalise(row, layers.settings_.back()); !rule.empty()) {
      return layers.refuse(row.id, rule);
    }
  }
  return layers;
}

const Setting& Layers::of(OptionId id) const {
  MUSTER_CHECK(static_cast<std::size_t>(id) < settings_.size());
  return settings_[static_cast<std::size_t>(id)];
}

void Layers::add(OptionId id, std::string text, std::string origin) {
  if (!is_given(id)) {
    settings_[static_cast<std::size_t>(id)] = {
        std::move(text), Source::platform, std::move(origin)};
  }
}

void Layers::replace(OptionId id, std::string text, std::string origin) {
  settings_[static_cast<std::size_t>(id)] = {std::move(text), Source::platform, std::move(origin)};
}

bool Layers::is_given(OptionId id) const {
  return of(id).source != Source::default_value;
}

bool Layers::is_typed(OptionId id) const {
  return of(id).source == Source::command_line;
}

std::int64_t Layers::integer(OptionId id) const {
  return parse_python_int(text(id)).value_or(0);
}

std::unexpected<Error> Layers::refuse(OptionId id, std::string_view rule) const {
  const Setting& setting = of(id);
  return failure(Errc::usage,
                 fmt::format("{}={}{}: {}",
                             long_flag(option(id)),
                             printable_in_line(shell_quoted(setting.text), kRefusedBytesMax),
                             is_typed(id) ? "" : fmt::format(" (from {})", setting.origin),
                             rule));
}

}  // namespace muster
