// SPDX-License-Identifier: Apache-2.0
#include "config/options/command_line.hpp"

#include "base/text.hpp"
#include "config/options/suggest.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <span>

namespace muster {
namespace {

using Args = std::span<const std::string>;

// An option found in an argument, with its attached value, if any ("--tee=3", "-r3").
struct Found {
  const Option* row = nullptr;
  std::optional<std::string> value;
};

std::string with_dashes(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '_', '-');
  return out;
}

// Like argparse, treats "-1" and "-.5" as values, not as options.
bool is_negative_number(std::string_view arg) {
  const std::string_view digits = arg.substr(1);
  const auto dot = digits.find('.');
  const auto all_digits = [](std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  if (dot == std::string_view::npos) {
    return !digits.empty() && all_digits(digits);
  }
  return dot + 1 < digits.size() && all_digits(digits.substr(0, dot)) &&
         all_digits(digits.substr(dot + 1));
}

std::vector<const Option*> rows_with_prefix(std::string_view prefix,
                                            Personality personality,
                                            bool in_torchrun) {
  std::vector<const Option*> rows;
  for (const Option& row : all_options()) {
    if (row.has(kTorchrun) == in_torchrun && !row.has(kHidden) && is_offered(row, personality) &&
        row.name.starts_with(prefix)) {
      rows.push_back(&row);
    }
  }
  return rows;
}

std::string did_you_mean(std::string_view name, Personality personality) {
  if (const auto instead = instead_of_foreign(name); !instead.empty()) {
    return fmt::format(": {}", instead);
  }
  const Option* meant = nearest_option(name, personality);
  return meant == nullptr ? "; put the program's options after its name"
                          : fmt::format("; did you mean {}?", long_flag(*meant));
}

class Parser {
 public:
  Parser(Personality personality, Args args) : args_(args) {
    line_.personality = personality;
    line_.typed.assign(args.begin(), args.end());
  }

  Result<CommandLine> run();

 private:
  Result<std::optional<Found>> look_up(std::string_view arg) const;
  Result<std::optional<Found>> look_up_long(std::string_view arg) const;
  std::optional<Found> look_up_short(std::string_view arg) const;
  Result<void> take(Found found);
  Result<void> take_action(const Option& row, const std::optional<std::string>& value);
  Result<std::string> value_of(const Found& found);
  void take_program(Args rest, bool dashes_seen);

  Args args_;
  std::size_t next_ = 0;
  bool stop_ = false;  // set by options such as --help; the remaining arguments are ignored
  CommandLine line_;
};

// None if the argument is a value or the program. Returns an error if the argument looks like an
// unknown option.
Result<std::optional<Found>> Parser::look_up(std::string_view arg) const {
  if (arg.size() < 2 || arg[0] != '-') {
    return std::nullopt;
  }
  if (arg.starts_with("--")) {
    auto found = look_up_long(arg);
    if (!found || *found) {
      return found;
    }
  } else if (auto found = look_up_short(arg)) {
    return found;
  }
  if (is_negative_number(arg) || arg.find(' ') != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string name = with_dashes(arg.substr(0, arg.find('=')));
  const std::string_view bare = std::string_view(name).substr(name.starts_with("--") ? 2 : 1);
  return failure(Errc::usage,
                 fmt::format("unknown option {}{}",
                             arg.substr(0, arg.find('=')),
                             did_you_mean(bare, line_.personality)));
}

Result<std::optional<Found>> Parser::look_up_long(std::string_view arg) const {
  const auto equals = arg.find('=');
  const std::string name = with_dashes(
      arg.substr(2, equals == std::string_view::npos ? std::string_view::npos : equals - 2));
  Found found;
  if (equals != std::string_view::npos) {
    found.value = std::string(arg.substr(equals + 1));
  }
  found.row = find_option(name);
  if (found.row != nullptr && is_offered(*found.row, line_.personality)) {
    return found;
  }
  // Check torchrun's options first, so that every prefix that is unique in torchrun remains unique.
  for (const bool in_torchrun : {true, false}) {
    const auto rows = rows_with_prefix(name, line_.personality, in_torchrun);
    if (rows.size() == 1) {
      found.row = rows.front();
      return found;
    }
    if (rows.size() > 1) {
      std::vector<std::string> flags;
      std::ranges::transform(
          rows, std::back_inserter(flags), [](const Option* row) { return long_flag(*row); });
      return failure(Errc::usage,
                     fmt::format("--{} is ambiguous; it matches {}", name, join(flags, " ")));
    }
  }
  return std::nullopt;
}

std::optional<Found> Parser::look_up_short(std::string_view arg) const {
  const Option* row = find_letter(arg[1]);
  if (row == nullptr) {
    return std::nullopt;
  }
  Found found{row, std::nullopt};
  if (arg.size() > 2) {
    found.value = std::string(arg.substr(arg[2] == '=' ? 3 : 2));
  }
  return found;
}

Result<std::string> Parser::value_of(const Found& found) {
  if (found.value) {
    return *found.value;
  }
  const bool there = next_ < args_.size() && args_[next_] != "--";
  if (there) {
    // An argument that looks like an option is not taken as a value, even if the option is unknown.
    const auto option_like = look_up(args_[next_]);
    if (option_like && !*option_like) {
      return args_[next_++];
    }
  }
  const std::string flag = long_flag(*found.row);
  return failure(Errc::usage,
                 there ? fmt::format("{} needs a value ({}); if the value starts with '-', write "
                                     "{}=VALUE",
                                     flag,
                                     found.row->value_name,
                                     flag)
                       : fmt::format("{} needs a value ({})", flag, found.row->value_name));
}

// The command for an option of kind action. None if the value is invalid.
std::optional<Command> request_of(OptionId id, const std::string& arg) {
  static const std::map<std::string, Command, std::less<>> kSubjects{
      {"config", Command::explain_config},
      {"all", Command::explain_all},
      {"plan", Command::explain_plan},
      {"env", Command::explain_env}};
  static const std::map<std::string, Command, std::less<>> kShells{
      {"bash", Command::bash_completion}, {"zsh", Command::zsh_completion}};
  switch (id) {
    case OptionId::help:
      return Command::help;
    case OptionId::version:
      return Command::version;
    case OptionId::print_man:
      return Command::man_page;
    case OptionId::remote_agent:
      return Command::remote_agent;
    case OptionId::measure_node:
      return Command::measure_node;
    default:
      break;
  }
  const auto& args = id == OptionId::print_completion ? kShells : kSubjects;
  const auto found = args.find(arg);
  return found == args.end() ? std::nullopt : std::optional(found->second);
}

Result<void> Parser::take_action(const Option& row, const std::optional<std::string>& value) {
  const auto wanted = request_of(row.id, value.value_or(""));
  if (!wanted) {
    return failure(Errc::usage,
                   fmt::format("{}={}: must be one of {}", long_flag(row), *value, row.choices));
  }
  line_.command = *wanted;
  stop_ = row.id != OptionId::explain && row.id != OptionId::dry_run;
  return {};
}

Result<void> Parser::take(Found found) {
  const Option& row = *found.row;
  const bool bare =
      row.kind == ValueKind::flag || (row.kind == ValueKind::action && row.value_name.empty());
  if (bare && found.value) {
    // "-mr3" means "-m -r3", as in argparse.
    const bool bundle = !args_[next_ - 1].starts_with("--") && !found.value->empty();
    const auto behind = bundle ? look_up_short("-" + *found.value) : std::nullopt;
    if (!behind) {
      return failure(Errc::usage,
                     fmt::format("{} takes no value, but has '{}'", long_flag(row), *found.value));
    }
    if (auto taken = take({&row, std::nullopt}); !taken || stop_) {
      return taken;
    }
    return take(*behind);
  }
  if (row.kind == ValueKind::flag) {
    line_.options[row.id] = "1";
    return {};
  }
  if (!found.value && !row.bare_value.empty()) {
    found.value = std::string(row.bare_value);
  } else if (!bare && row.bare_value.empty()) {
    auto value = value_of(found);
    MUSTER_RETURN_IF_ERROR(value);
    found.value = std::move(*value);
  }
  if (row.kind == ValueKind::action) {
    return take_action(row, found.value);
  }
  std::string& value = line_.options[row.id];
  const bool adds = row.id == OptionId::export_variable && !value.empty();
  value = adds ? value + "\n" + *found.value : *found.value;
  return {};
}

// Drops one "--", either before the program or directly after it.
void Parser::take_program(Args rest, bool dashes_seen) {
  line_.program = rest.front();
  rest = rest.subspan(1);
  if (!dashes_seen && !rest.empty() && rest.front() == "--") {
    rest = rest.subspan(1);
  }
  line_.args.assign(rest.begin(), rest.end());
}

Result<CommandLine> Parser::run() {
  while (!stop_ && next_ < args_.size()) {
    const std::string& arg = args_[next_++];
    const bool dashes = arg == "--";
    if (dashes && next_ == args_.size()) {
      break;
    }
    auto found = dashes ? std::nullopt : look_up(arg);
    MUSTER_RETURN_IF_ERROR(found);
    if (!*found) {
      take_program(args_.subspan(dashes ? next_ : next_ - 1), dashes);
      return std::move(line_);
    }
    MUSTER_RETURN_IF_ERROR(take(**found));
  }
  if (!stop_) {
    return failure(Errc::usage,
                   "no program given: add a script, module or program after the options (see "
                   "muster --help)");
  }
  return std::move(line_);
}

}  // namespace

Personality personality_of(std::string_view program_path) {
  const auto slash = program_path.rfind('/');
  const std::string_view name =
      slash == std::string_view::npos ? program_path : program_path.substr(slash + 1);
  if (name == "torchrun" || name == "torch.distributed.run") {
    return Personality::torchrun;
  }
  return name == "torch.distributed.launch" ? Personality::torch_distributed_launch
                                            : Personality::muster;
}

Result<CommandLine> parse_command_line(Personality personality,
                                       const std::vector<std::string>& args) {
  return Parser(personality, args).run();
}

}  // namespace muster
