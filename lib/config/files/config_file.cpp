// SPDX-License-Identifier: Apache-2.0
// The only file that includes toml++. It uses the header-only variant, because Debian packages only
// a shared library, which a static program cannot use. The parser is configured not to throw.
#include "config/files/config_file.hpp"

#include "base/printable.hpp"
#include "base/text.hpp"
#include "config/options/suggest.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// toml++ 3.3 asserts conditions that malformed input violates ("a = [}"), and with NDEBUG it lets
// the compiler assume that they hold. Both are unsafe for untrusted input, so the assertions are
// disabled. The parser then reports a normal error.
#define TOML_ASSERT(condition) static_cast<void>(0)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace muster {
namespace {

using Values = std::map<OptionId, std::string>;

constexpr std::size_t kMessageMax = 200;

// One entry of the file and its line number.
struct Entry {
  std::string key;
  const toml::node* value = nullptr;
  std::uint32_t line = 0;
};

std::unexpected<Error> refuse(std::string_view path, std::uint32_t line, std::string_view why) {
  return failure(Errc::usage, fmt::format("config file {}, line {}: {}", path, line, why));
}

// In file order, so that the first mistake is reported.
std::vector<Entry> entries_of(const toml::table& table) {
  std::vector<Entry> entries;
  for (const auto& [key, value] : table) {
    entries.push_back({std::string(key.str()), &value, key.source().begin.line});
  }
  std::ranges::sort(entries, {}, &Entry::line);
  return entries;
}

// A value as typed on a command line. None if it is not a scalar.
std::optional<std::string> as_typed(const toml::node& value) {
  if (const auto* text = value.as_string()) {
    return text->get();
  }
  if (const auto* flag = value.as_boolean()) {
    return flag->get() ? "true" : "false";
  }
  if (const auto* whole = value.as_integer()) {
    return std::to_string(whole->get());
  }
  if (const auto* number = value.as_floating_point()) {
    return fmt::format("{}", number->get());
  }
  return std::nullopt;
}

std::optional<std::string> as_list(const toml::array& values) {
  std::vector<std::string> parts;
  for (const toml::node& value : values) {
    auto part = as_typed(value);
    if (!part) {
      return std::nullopt;
    }
    parts.push_back(std::move(*part));
  }
  return join(parts, ",");
}

Result<const Option*> option_of(const Entry& entry, std::string_view path) {
  const Option* row = find_option(entry.key);
  const bool settable = row != nullptr && row->kind != ValueKind::action &&
                        row->id != OptionId::config && row->id != OptionId::accelerate_config;
  if (settable) {
    return row;
  }
  std::string name = entry.key;
  std::ranges::replace(name, '_', '-');
  const Option* meant = row == nullptr ? nearest_setting(name, Personality::muster) : nullptr;
  return refuse(
      path,
      entry.line,
      fmt::format("'{}' is not an option that can be set here{}",
                  printable_in_line(entry.key, kMessageMax),
                  meant == nullptr ? "" : fmt::format("; did you mean {}?", meant->name)));
}

Result<std::string> value_of(const Option& row, const Entry& entry, std::string_view path) {
  if (const auto* list = entry.value->as_array(); list != nullptr && row.kind == ValueKind::text) {
    if (auto values = as_list(*list)) {
      return std::move(*values);
    }
  }
  if (auto value = as_typed(*entry.value)) {
    return std::move(*value);
  }
  return refuse(
      path,
      entry.line,
      fmt::format("'{}' takes {}: write {} = VALUE",
                  row.name,
                  row.kind == ValueKind::text ? "one value or a list of values" : "one value",
                  row.name));
}

Result<void> take(const Entry& entry, std::string_view path, Values& values) {
  const auto row = option_of(entry, path);
  MUSTER_RETURN_IF_ERROR(row);
  auto value = value_of(**row, entry, path);
  MUSTER_RETURN_IF_ERROR(value);
  if (!values.emplace((*row)->id, std::move(*value)).second) {
    return refuse(path, entry.line, fmt::format("'{}' is set twice", (*row)->name));
  }
  return {};
}

}  // namespace

Result<Values> parse_config_file(const std::string& text, std::string_view path) {
  const toml::parse_result parsed = toml::parse(std::string_view(text));
  if (!parsed) {
    return refuse(
        path,
        parsed.error().source().begin.line,
        fmt::format("{}; the file must be TOML, with OPTION = VALUE lines and quoted strings",
                    printable_in_line(parsed.error().description(), kMessageMax)));
  }
  Values values;
  for (const Entry& entry : entries_of(parsed.table())) {
    MUSTER_RETURN_IF_ERROR(take(entry, path, values));
  }
  return values;
}

}  // namespace muster
