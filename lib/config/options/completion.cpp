// SPDX-License-Identifier: Apache-2.0
// Completion scripts for bash and zsh, generated from the option table. Before the program name
// they complete options, option values and file names. After it they complete only file names,
// because those arguments belong to the program.
#include "base/text.hpp"
#include "config/options/help.hpp"
#include "config/options/settings.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

constexpr std::string_view kBashBegin =
    R"(# bash completion for muster; load it with: source <(muster --print-completion bash)
_muster() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -*) if [[ ${COMP_WORDS[i+1]} == "=" ]]; then
            ((i += 2))
          elif [[ " $_muster_valued " == *" ${COMP_WORDS[i]//_/-} "* ]]; then
            ((i++))
          fi ;;
      *) COMPREPLY=($(compgen -f -- "$word")); return ;;
    esac
  done
  if [[ $word == "=" ]]; then word=""; fi
  if [[ $before == "=" ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  case ${before//_/-} in
)";

constexpr std::string_view kBashEnd = R"(  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$_muster_options" -- "${word//_/-}"))
    if [[ $word == *_* ]]; then
      COMPREPLY=("${COMPREPLY[@]#--}")
      COMPREPLY=("${COMPREPLY[@]//-/_}")
      COMPREPLY=("${COMPREPLY[@]/#/--}")
    fi
  else
    COMPREPLY=($(compgen -c -f -- "$word"))
  fi
}
complete -o filenames -F _muster muster
)";

// Candidate values of an option, separated by blanks. Empty if any text is allowed.
std::string values_for(const Option& row) {
  if (!row.choices.empty()) {
    return join(split(row.choices, '|'), " ");
  }
  switch (row.id) {
    case OptionId::nproc_per_node:
      return "auto gpu cpu 1 2 4 8";
    case OptionId::rdzv_backend:
      return "static c10d";
    case OptionId::redirects:
    case OptionId::tee:
      return "0 1 2 3";
    case OptionId::stdin_rank:
      return "none 0";
    case OptionId::warm:
      return "auto off";
    default:
      return "";
  }
}

bool takes_folder(const Option& row) {
  return row.id == OptionId::log_dir;
}

std::string bash_case(const Option& row) {
  std::string pattern = long_flag(row);
  if (row.letter != 0) {
    pattern += fmt::format("|-{}", row.letter);
  }
  const std::string values = values_for(row);
  const std::string answer = !values.empty()     ? fmt::format("-W \"{}\"", values)
                             : takes_folder(row) ? "-d"
                                                 : "-f";
  return fmt::format(
      "    {}) COMPREPLY=($(compgen {} -- \"$word\")); return ;;\n", pattern, answer);
}

// Escapes quotes, brackets and colons, which are special to zsh's _arguments.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':') {
      out += '\\';
    }
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

std::string zsh_argument(const Option& row, const std::string& flag) {
  std::string out = fmt::format("    '{}", flag);
  const bool optional_value = !row.bare_value.empty();
  if (!row.value_name.empty()) {
    out += optional_value ? "=-" : "=";
  }
  out += fmt::format("[{}]", zsh_text(row.help));
  if (!row.value_name.empty()) {
    const std::string values = values_for(row);
    const std::string action = !values.empty()     ? fmt::format("({})", values)
                               : takes_folder(row) ? "_files -/"
                                                   : "_files";
    out += fmt::format("{}{}:{}", optional_value ? "::" : ":", zsh_text(row.value_name), action);
  }
  return out + "'\n";
}

bool is_completed(const Option& row) {
  return !row.has(kHidden) && is_offered(row, Personality::muster);
}

}  // namespace

std::string bash_completion() {
  std::string cases;
  std::vector<std::string> flags;
  std::vector<std::string> valued;  // options that consume the next word
  for (const Option& row : all_options()) {
    if (!is_completed(row)) {
      continue;
    }
    flags.push_back(long_flag(row));
    if (row.letter != 0) {
      flags.push_back(fmt::format("-{}", row.letter));
    }
    if (row.value_name.empty()) {
      continue;
    }
    cases += bash_case(row);
    if (row.bare_value.empty()) {
      valued.insert(valued.end(), flags.end() - (row.letter != 0 ? 2 : 1), flags.end());
    }
  }
  return fmt::format("{}{}{}_muster_options=\"{}\"\n_muster_valued=\"{}\"\n",
                     kBashBegin,
                     cases,
                     kBashEnd,
                     join(flags, " "),
                     join(valued, " "));
}

// Spellings with underscores are offered only after the user has typed an underscore.
std::string zsh_completion() {
  std::string dashed;
  std::string underscored;
  for (const Option& row : all_options()) {
    if (!is_completed(row)) {
      continue;
    }
    dashed += zsh_argument(row, long_flag(row));
    std::string name(row.name);
    std::ranges::replace(name, '-', '_');
    if (name != row.name) {
      underscored += zsh_argument(row, "--" + name);
    }
  }
  return fmt::format(
      "#compdef muster\n# zsh completion for muster; load it with: source "
      "<(muster --print-completion zsh)\n_muster() {{\n  local -a specs\n  specs=(\n{}  )\n"
      "  if (( ${{words[(I)--*_*]}} )); then\n    specs+=(\n{}    )\n  fi\n"
      "  _arguments -S $specs '(-)1:program:_files' '(-)*::argument:_files'\n}}\n"
      "if [ \"$funcstack[1]\" = \"_muster\" ]; then _muster \"$@\"; else compdef _muster "
      "muster; fi\n",
      dashed,
      underscored);
}

}  // namespace muster
