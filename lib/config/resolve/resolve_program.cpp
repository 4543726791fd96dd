// SPDX-License-Identifier: Apache-2.0
// Finds the interpreter, if any, for the user's program. This happens before any process starts, so
// that a wrong name causes a one-line error instead of a traceback from each worker.
#include "base/text.hpp"
#include "config/options/values.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

namespace muster {
namespace {

// The default of execvp if PATH is not set.
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

struct Python {
  std::string path;
  std::string origin;
};

// Like torchrun, a launcher installed in a virtual environment uses that environment's Python, even
// if the environment is not active. A launcher in /usr/bin uses the active environment.
std::optional<Python> python_beside_us(const Resolution& r) {
  const std::string own = r.machine.own_path();
  const auto slash = own.rfind('/');
  if (slash == std::string::npos) {
    return std::nullopt;
  }
  const std::string folder = own.substr(0, slash);
  const auto is_there = [&](const std::string& name) {
    return r.machine.file_kind(folder + name) != FileKind::missing;
  };
  const bool environment = is_there("/../pyvenv.cfg") || is_there("/../conda-meta");
  if (!environment || r.machine.file_kind(folder + "/python3") != FileKind::executable) {
    return std::nullopt;
  }
  return Python{folder + "/python3", "beside " + own};
}

Result<Python> find_python(const Resolution& r) {
  if (const auto chosen = r.environ.get("PYTHON_EXEC"); chosen && !chosen->empty()) {
    return Python{*chosen, "PYTHON_EXEC"};
  }
  if (auto beside = python_beside_us(r)) {
    return std::move(*beside);
  }
  if (const auto active = r.environ.get("VIRTUAL_ENV"); active && !active->empty()) {
    std::string path = *active + "/bin/python3";
    if (r.machine.file_kind(path) == FileKind::executable) {
      return Python{std::move(path), "VIRTUAL_ENV"};
    }
  }
  if (!is_in_path(r, "python3")) {
    return failure(Errc::not_found,
                   "python3 is not in PATH; activate a virtual environment or set PYTHON_EXEC");
  }
  return Python{"python3", "PATH"};
}

// A name with a macro differs for each worker, so errors are reported when the worker is started.
// The set of macros depends on the name under which muster was invoked (plan/macros.hpp).
bool has_macro(const Resolution& r, std::string_view name) {
  const bool ours = r.line.personality == Personality::muster;
  return name.find(ours ? "${local_rank}" : "$") != std::string_view::npos;
}

// Includes the working directory, because a scheduler may have started muster in an unexpected one.
std::string not_there(const Resolution& r, std::string_view kind, const std::string& name) {
  const std::string folder = name.starts_with('/') ? "" : r.machine.working_folder();
  return fmt::format("the {} {} does not exist{}",
                     kind,
                     shell_quoted(name),
                     folder.empty() ? "" : " in " + folder);
}

Result<void> check_script(const Resolution& r, const std::string& name) {
  if (name == "-" || has_macro(r, name) || r.machine.file_kind(name) != FileKind::missing) {
    return {};
  }
  return failure(Errc::not_found, not_there(r, "script", name));
}

bool is_module_name(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return c == '_' || c == '.' || std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           static_cast<unsigned char>(c) >= 0x80;
  });
}

// Suggests -m for names of Python modules: "my_package.train" is my_package/train.py.
std::string hint_of_module(const Resolution& r, const std::string& name) {
  std::string path = name;
  std::ranges::replace(path, '.', '/');
  const bool is_there = std::ranges::any_of(
      std::array{".py", "/__main__.py", "/__init__.py"},
      [&](const char* end) { return r.machine.file_kind(path + end) != FileKind::missing; });
  return is_there || (name.find('.') != std::string::npos && is_module_name(name))
             ? fmt::format("; did you mean -m {}?", name)
             : "";
}

Result<void> check_executable(const Resolution& r, const std::string& name) {
  if (has_macro(r, name)) {
    return {};
  }
  const std::string quoted = shell_quoted(name);
  const bool has_slash = name.find('/') != std::string::npos;
  if (!has_slash && is_in_path(r, name)) {
    return {};
  }
  switch (r.machine.file_kind(name)) {
    case FileKind::executable:
      return has_slash
                 ? Result<void>{}
                 : failure(Errc::not_found,
                           fmt::format("{} is not in PATH; to run the file in this directory, "
                                       "use ./{}",
                                       quoted,
                                       quoted));
    case FileKind::missing:
      return failure(Errc::not_found,
                     has_slash
                         ? not_there(r, "program", name)
                         : fmt::format("the program {} is neither in PATH nor in this directory{}",
                                       quoted,
                                       hint_of_module(r, name)));
    case FileKind::folder:
      return failure(Errc::not_possible, fmt::format("{} is a directory, not a program", quoted));
    case FileKind::noexec:
      return failure(
          Errc::not_possible,
          fmt::format("{} is on a file system mounted noexec; copy it to a different file "
                      "system, or put its interpreter in front of it",
                      quoted));
    case FileKind::plain:
    case FileKind::other:
      break;
  }
  return failure(
      Errc::not_possible,
      fmt::format("{} is neither a Python script (its name does not end in .py or .pyz) nor "
                  "executable; run chmod +x, or put its interpreter in front of it",
                  quoted));
}

bool is_python_name(const Resolution& r, const std::string& name) {
  return name.ends_with(".py") || name.ends_with(".pyz") || name.ends_with(".pyzw") ||
         r.machine.file_kind(name + "/__main__.py") != FileKind::missing;
}

// torchrun assumes a Python script unless --no-python is set. muster checks the file.
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

// The argument that passes the local rank to scripts written for torch.distributed.launch.
Result<void> resolve_local_rank_arg(const Resolution& r, bool by_launcher) {
  const std::string& name = r.layers.text(OptionId::local_rank_arg);
  const bool plain = std::ranges::all_of(
      name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
  if (!plain || name.starts_with('-')) {
    return r.layers.refuse(OptionId::local_rank_arg,
                           "must be a name without leading dashes, for example local_rank");
  }
  r.config().local_rank_arg = by_launcher && name.empty() ? "local_rank" : name;
  r.show(OptionId::local_rank_arg, r.config().local_rank_arg);
  r.show(OptionId::use_env, r.config().local_rank_arg.empty());
  return {};
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
  return resolve_local_rank_arg(r, launch && !r.layers.is_on(OptionId::use_env));
}

// Checks that the program can be started, and for Python finds the interpreter.
Result<void> look_for_program(const Resolution& r) {
  Program& program = r.config().program;
  if (program.kind == ProgramKind::executable) {
    return check_executable(r, program.name);
  }
  auto python = find_python(r);
  program.python = python ? python->path : "python3";
  program.python_origin = python ? python->origin : "not found";
  if (program.kind == ProgramKind::python_script) {
    if (auto checked = check_script(r, program.name); !checked) {
      return checked;
    }
  }
  return python ? Result<void>{} : std::unexpected(python.error());
}

// A user may set MUSTER_WARM for all programs, so it is ignored for programs that are not Python.
// The command-line option, in contrast, is rejected for such programs.
Result<void> resolve_warm(const Resolution& r) {
  const std::string text(trim(r.layers.text(OptionId::warm)));
  const auto flag = parse_word_flag(text);
  r.show(OptionId::warm, "off");
  if (flag == false) {
    return {};
  }
  if (r.config().program.kind == ProgramKind::executable) {
    return r.layers.is_typed(OptionId::warm)
               ? r.layers.refuse(OptionId::warm, "needs a Python program")
               : Result<void>{};
  }
  std::vector<std::string> modules;
  if (flag != true && to_lower(text) != "auto") {
    for (const auto& name : split(text, ',')) {
      modules.emplace_back(trim(name));
    }
    if (!std::ranges::all_of(modules, is_module_name)) {
      return r.layers.refuse(OptionId::warm, "must be auto, off or module names: torch,numpy");
    }
  }
  r.show(OptionId::warm, modules.empty() ? "auto" : join(modules, ","));
  r.config().warm = std::move(modules);
  return {};
}

// Few scripts have options with these names, so such an option after the script is probably a
// mistake.
void note_wrong_side(const Resolution& r) {
  constexpr std::array kOfLaunchers{OptionId::nproc_per_node,
                                    OptionId::nnodes,
                                    OptionId::node_rank,
                                    OptionId::rdzv_backend,
                                    OptionId::rdzv_endpoint,
                                    OptionId::rdzv_id};
  if (r.config().program.kind == ProgramKind::executable) {
    return;
  }
  for (const std::string& arg : r.config().program.args) {
    const std::string name = arg.substr(0, arg.find('='));
    const Option* found = name.starts_with("--") ? find_option(name.substr(2)) : nullptr;
    if (found != nullptr && std::ranges::find(kOfLaunchers, found->id) != kOfLaunchers.end()) {
      r.warn(
          fmt::format("{} follows {} and is passed to the program; to set it for muster, put it "
                      "before the program",
                      arg,
                      r.config().program.name));
      return;
    }
  }
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
    return failure(Errc::usage, "the program name is empty");
  }
  program.kind = kind_of(r, program.name);
  r.show(OptionId::no_python, program.kind == ProgramKind::executable);
  note_wrong_side(r);
  if (auto warm = resolve_warm(r); !warm) {
    return warm;
  }
  auto found = look_for_program(r);
  if (!found && r.line.command != Command::launch) {
    // --explain starts nothing, and the program may exist only on another host.
    program.problem = found.error().message;
    return {};
  }
  return found;
}

}  // namespace muster
