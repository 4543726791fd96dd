// SPDX-License-Identifier: Apache-2.0
// Which interpreter, if any, runs the user's program. Found out before anything is started, so that
// a wrong name is one line and not one traceback for each worker.
#include "base/text.hpp"
#include "config/resolution.hpp"

#include <fmt/core.h>

namespace muster {
namespace {

// What execvp would search where PATH is not set.
constexpr std::string_view kPathDefault = "/bin:/usr/bin";

bool is_in_path(const Resolution& r, std::string_view name) {
  for (const std::string& folder :
       split(r.environ.get("PATH").value_or(std::string(kPathDefault)), ':')) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + std::string(name);
    if (r.machine.file_kind(path) == FileKind::executable) {
      return true;
    }
  }
  return false;
}

Result<std::string> find_python(const Resolution& r) {
  if (const auto chosen = r.environ.get("PYTHON_EXEC"); chosen && !chosen->empty()) {
    return *chosen;
  }
  if (const auto active = r.environ.get("VIRTUAL_ENV"); active && !active->empty()) {
    std::string path = *active + "/bin/python3";
    if (r.machine.file_kind(path) == FileKind::executable) {
      return path;
    }
  }
  if (!is_in_path(r, "python3")) {
    return failure(Errc::not_found,
                   "python3 is not in PATH; activate a virtual environment or set PYTHON_EXEC");
  }
  return std::string("python3");
}

// Names with macros are known only for each worker; spawning reports what is wrong with those.
bool has_macro(std::string_view name) {
  return name.find('$') != std::string_view::npos;
}

Result<void> check_script(const Resolution& r, const std::string& name) {
  if (name == "-" || has_macro(name) || r.machine.file_kind(name) != FileKind::missing) {
    return {};
  }
  return failure(Errc::not_found, fmt::format("the script {} does not exist", shell_quoted(name)));
}

Result<void> check_executable(const Resolution& r, const std::string& name) {
  if (has_macro(name)) {
    return {};
  }
  const std::string quoted = shell_quoted(name);
  const bool has_slash = name.find('/') != std::string::npos;
  if (!has_slash && is_in_path(r, name)) {
    return {};
  }
  switch (r.machine.file_kind(name)) {
    case FileKind::executable:
      return has_slash ? Result<void>{}
                       : failure(Errc::not_found,
                                 fmt::format("{} is not in PATH; for the file in this folder write "
                                             "./{}",
                                             quoted,
                                             quoted));
    case FileKind::missing:
      return failure(
          Errc::not_found,
          has_slash ? fmt::format("the program {} does not exist", quoted)
                    : fmt::format("the program {} is neither in PATH nor in this folder", quoted));
    case FileKind::folder:
      return failure(Errc::not_possible, fmt::format("{} is a folder, not a program", quoted));
    case FileKind::plain:
    case FileKind::other:
      break;
  }
  return failure(Errc::not_possible,
                 fmt::format("{} is neither a Python script (its name does not end in .py) nor "
                             "executable; try chmod +x, or name its interpreter first",
                             quoted));
}

bool is_python_name(const Resolution& r, const std::string& name) {
  return name.ends_with(".py") || r.machine.file_kind(name + "/__main__.py") != FileKind::missing;
}

// torchrun's rule: a script is Python unless it is said not to be. Ours looks at the file.
ProgramKind kind_of(const Resolution& r, const std::string& name) {
  if (r.layers.is_on(OptionId::run_path)) {
    return ProgramKind::python_script;
  }
  if (r.layers.is_on(OptionId::no_python)) {
    return ProgramKind::executable;
  }
  if (r.layers.is_on(OptionId::module)) {
    return ProgramKind::python_module;
  }
  const bool python = r.line.personality != Personality::muster || is_python_name(r, name);
  return python ? ProgramKind::python_script : ProgramKind::executable;
}

Result<void> check_pairs(const Resolution& r) {
  if (r.layers.is_on(OptionId::module)) {
    for (const OptionId other : {OptionId::no_python, OptionId::run_path}) {
      if (r.layers.is_on(other)) {
        return failure(
            Errc::usage,
            fmt::format("--module and {} cannot be used together", long_flag(option(other))));
      }
    }
  }
  const bool launch = r.line.personality == Personality::torch_distributed_launch;
  if (launch && r.layers.is_on(OptionId::no_python) && !r.layers.is_on(OptionId::use_env)) {
    return failure(Errc::usage, "--no-python also needs --use-env here");
  }
  r.config().pass_local_rank = launch && !r.layers.is_on(OptionId::use_env);
  return {};
}

}  // namespace

Result<void> resolve_program(const Resolution& r) {
  if (auto checked = check_pairs(r); !checked) {
    return checked;
  }
  Program& program = r.config().program;
  program.name = r.line.program;
  program.args = r.line.args;
  if (program.name.empty()) {
    return failure(Errc::usage, "the name of the program to run is empty");
  }
  program.kind = kind_of(r, program.name);
  if (program.kind == ProgramKind::executable) {
    return check_executable(r, program.name);
  }
  if (program.kind == ProgramKind::python_script) {
    if (auto checked = check_script(r, program.name); !checked) {
      return checked;
    }
  }
  auto python = find_python(r);
  if (!python) {
    return std::unexpected(python.error());
  }
  program.python = std::move(*python);
  return {};
}

}  // namespace muster
