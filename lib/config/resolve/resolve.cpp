// SPDX-License-Identifier: Apache-2.0
#include "config/resolve/resolve.hpp"

#include "base/text.hpp"
#include "config/files/accelerate_config.hpp"
#include "config/files/config_file.hpp"
#include "config/options/suggest.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace muster {
namespace {

// The file of --config or --accelerate-config.
struct ConfigFile : FileValues {
  std::map<std::string, std::string> variables;
};

// Optional site configuration for all users of this host.
constexpr const char* kSiteConfig = "/etc/muster/config.toml";

std::string path_of(OptionId id, const CommandLine& line, const Environ& environ) {
  const auto typed = line.options.find(id);
  return typed != line.options.end()
             ? typed->second
             : std::string(environ.get(muster_variable(option(id))).value_or(""));
}

Result<void> parse_into(ConfigFile& file, OptionId id, const Machine& machine) {
  const auto text = machine.read_file(file.path);
  if (!text) {
    return failure(Errc::usage, long_flag(option(id)) + ": " + text.error().message);
  }
  if (id == OptionId::config) {
    auto values = parse_config_file(*text, file.path);
    MUSTER_RETURN_IF_ERROR(values);
    file.values = std::move(*values);
    return {};
  }
  auto parsed = parse_accelerate_config(*text, file.path);
  MUSTER_RETURN_IF_ERROR(parsed);
  file.values = std::move(parsed->values);
  file.variables = std::move(parsed->variables);
  return {};
}

Result<ConfigFile> read_config_file(const CommandLine& line,
                                    const Environ& environ,
                                    const Machine& machine) {
  ConfigFile file;
  const std::string other = path_of(OptionId::accelerate_config, line, environ);
  file.path = path_of(OptionId::config, line, environ);
  if (!file.path.empty() && !other.empty()) {
    return failure(Errc::usage,
                   "--config and --accelerate-config cannot be combined; move the options of one "
                   "file to the command line");
  }
  const OptionId id = other.empty() ? OptionId::config : OptionId::accelerate_config;
  file.path += other;
  if (file.path.empty()) {
    return file;
  }
  MUSTER_RETURN_IF_ERROR(parse_into(file, id, machine));
  return file;
}

Result<FileValues> read_site_config(const Machine& machine) {
  FileValues file{.path = kSiteConfig, .values = {}};
  if (machine.file_kind(file.path) == FileKind::missing) {
    return file;
  }
  const auto text = machine.read_file(file.path);
  auto values = text ? parse_config_file(*text, file.path) : std::unexpected(text.error());
  MUSTER_RETURN_IF_ERROR(values);
  file.values = std::move(*values);
  return file;
}

// Leaves out a PET_ variable that old Kubernetes operators misspell, because muster reads it under
// the misspelled name.
std::vector<std::string> mistyped(const Environ& environ,
                                  Personality personality,
                                  const PlatformPlan& plan) {
  Environ rest = environ;
  if (plan.workers) {
    rest.erase(plan.workers->origin);
  }
  return mistyped_variables(rest, personality);
}

// Rejects torchrun options that need a Python launcher.
Result<void> check_accepted(const Resolution& r) {
  const auto& layers = r.layers;
  const std::string& handler = layers.text(OptionId::event_log_handler);
  if (handler != "null") {
    return layers.refuse(OptionId::event_log_handler,
                         "event handlers are Python plug-ins, which are not supported; use "
                         "--on-event=COMMAND, which receives events as JSON");
  }
  const std::string& specs = layers.text(OptionId::logs_specs);
  if (!specs.empty() && specs != "default") {
    return layers.refuse(OptionId::logs_specs,
                         "logs specs are Python plug-ins, which are not supported; use --log-dir, "
                         "--redirects and --tee");
  }
  if (const auto interval = layers.text(OptionId::monitor_interval);
      interval.find_first_of("123456789") == std::string::npos || interval.find('-') == 0) {
    return layers.refuse(OptionId::monitor_interval, "must be greater than 0");
  }
  return {};
}

void note_sources(const Resolution& r) {
  for (const Option& row : all_options()) {
    if (row.kind == ValueKind::action || !is_offered(row, r.line.personality)) {
      continue;
    }
    r.config().origins.emplace(row.name, r.layers.of(row.id).origin);
    if (row.kind == ValueKind::flag) {
      r.show(row.id, r.layers.is_on(row.id));
    } else {
      r.show(row.id, r.layers.text(row.id));
    }
  }
  // One variable on each line: "NAME" or "NAME=VALUE".
  const auto exports = without_secrets(split(r.layers.text(OptionId::export_variable), '\n'));
  r.show(OptionId::export_variable, join(exports, ","));
  r.show(OptionId::devices, r.config().devices);
}

// As in torchrun, the option has precedence over LOGLEVEL. An unknown level only causes a
// warning.
Result<void> resolve_log_level(const Resolution& r) {
  r.config().log_level = parse_log_level(r.layers.text(OptionId::log_level)).value();
  const auto inherited = r.environ.get("LOGLEVEL");
  if (r.layers.is_given(OptionId::log_level) || !inherited || inherited->empty()) {
    return {};
  }
  const auto level = parse_log_level(*inherited);
  if (!level) {
    r.warn(fmt::format("ignoring LOGLEVEL={}: {}", *inherited, level.error().message));
    return {};
  }
  r.config().log_level = *level;
  r.show(OptionId::log_level,
         split(option(OptionId::log_level).choices, '|')[static_cast<std::size_t>(*level)]);
  r.set_origin(OptionId::log_level, "LOGLEVEL");
  return {};
}

}  // namespace

Result<Resolved> resolve(const CommandLine& line, const Environ& environ, const Machine& machine) {
  const auto file = read_config_file(line, environ, machine);
  MUSTER_RETURN_IF_ERROR(file);
  auto site = read_site_config(machine);
  MUSTER_RETURN_IF_ERROR(site);
  auto layers = Layers::collect(line, environ, {*file, *std::move(site)});
  MUSTER_RETURN_IF_ERROR(layers);
  Resolved out;
  out.config.personality = line.personality;
  out.config.config_file = file->path;
  out.environ = environ;
  for (const auto& [name, value] : file->variables) {
    out.environ.set(name, value);
  }
  const Resolution resolution{line, out.environ, machine, *layers, out};
  MUSTER_RETURN_IF_ERROR(resolve_hosts(resolution, file->variables));
  if (out.hosts) {
    std::ranges::move(mistyped(environ, line.personality, {}), std::back_inserter(out.warnings));
    return out;
  }
  MUSTER_RETURN_IF_ERROR(resolve_devices(machine, *layers, out));
  MUSTER_RETURN_IF_ERROR(resolve_platform(line, out.environ, machine, *layers, out));
  if (!out.command.empty()) {
    return out;
  }
  std::ranges::move(mistyped(environ, line.personality, out.config.platform),
                    std::back_inserter(out.warnings));
  note_sources(resolution);
  // The order is the same as in torchrun, so that the first reported error is the same.
  for (const auto step : {resolve_rendezvous,
                          resolve_stopping,
                          resolve_workers,
                          resolve_numa,
                          resolve_output,
                          resolve_program,
                          resolve_frameworks,
                          resolve_debug,
                          resolve_ports,
                          resolve_http,
                          check_accepted,
                          resolve_log_level}) {
    MUSTER_RETURN_IF_ERROR(step(resolution));
  }
  return out;
}

}  // namespace muster
