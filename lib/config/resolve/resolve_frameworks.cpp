// SPDX-License-Identifier: Apache-2.0
// Whether the workers get the variables of JAX.
#include "base/text.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace muster {
namespace {

// True for "jax" and "jax.numpy as jnp".
bool names_jax(std::string_view text) {
  const std::string_view name = trim(text);
  constexpr std::string_view kJax = "jax";
  return name.starts_with(kJax) &&
         (name.size() == kJax.size() ||
          std::string_view(". \t#;\r").find(name[kJax.size()]) != std::string_view::npos);
}

// True for "import os, jax" and "from jax import numpy".
bool imports_jax(std::string_view line) {
  const std::string_view text = trim(line);
  constexpr std::string_view kImport = "import ";
  constexpr std::string_view kFrom = "from ";
  if (text.starts_with(kFrom)) {
    return names_jax(text.substr(kFrom.size()));
  }
  return text.starts_with(kImport) &&
         std::ranges::any_of(split(text.substr(kImport.size()), ','), names_jax);
}

// The file with the program's top-level code. Empty if it is unknown, for example for an installed
// module.
std::string source_of(const Resolution& r) {
  const Program& program = r.config().program;
  if (program.kind == ProgramKind::executable) {
    return "";
  }
  std::string base = program.name;
  if (program.kind == ProgramKind::python_module) {
    std::ranges::replace(base, '.', '/');
  }
  for (const std::string& path : {base, base + ".py", base + "/__main__.py"}) {
    const FileKind kind = r.machine.file_kind(path);
    if (path.ends_with(".py") && (kind == FileKind::plain || kind == FileKind::executable)) {
      return path;
    }
  }
  return "";
}

}  // namespace

Result<void> resolve_frameworks(const Resolution& r) {
  LaunchConfig& config = r.config();
  const std::string& wanted = r.layers.text(OptionId::env_for);
  config.jax = wanted == "jax";
  if (wanted != "auto") {
    return {};
  }
  const std::string path = source_of(r);
  const std::string text = path.empty() ? "" : r.machine.read_file(path).value_or("");
  config.jax = std::ranges::any_of(split(text, '\n'), imports_jax);
  r.show(OptionId::env_for, config.jax ? "jax" : "none");
  if (config.jax) {
    r.set_origin(OptionId::env_for, fmt::format("{} imports jax", path));
  }
  return {};
}

}  // namespace muster
