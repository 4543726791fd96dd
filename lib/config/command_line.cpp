// SPDX-License-Identifier: Apache-2.0
#include "config/command_line.hpp"

#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

namespace muster {
namespace {

using Words = std::span<const std::string>;

// An option found in a word, with the value that was joined to it ("--tee=3", "-r3").
struct Found {
  const Option* row = nullptr;
  std::optional<std::string> value;
};

std::string with_dashes(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '_', '-');
  return out;
}

// As argparse has it: "-1" and "-.5" are values, not options.
bool is_negative_number(std::string_view word) {
  const std::string_view digits = word.substr(1);
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
    if (row.in_torchrun == in_torchrun && !row.hidden && is_offered(row, personality) &&
        row.name.starts_with(prefix)) {
      rows.push_back(&row);
    }
  }
  return rows;
}

// Words of other launchers for what users look for most.
const Option* foreign_word(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kWorkers{
      "n", "np", "nprocs", "nproc", "num-processes", "num-workers", "gpus", "num-gpus", "ngpus"};
  return std::ranges::find(kWorkers, name) == kWorkers.end() ? nullptr
                                                             : &option(OptionId::nproc_per_node);
}

std::string did_you_mean(std::string_view name, Personality personality) {
  const Option* best = foreign_word(name);
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const Option& row : all_options()) {
    if (best != nullptr && best_distance == 0) {
      break;
    }
    const std::size_t distance = edit_distance(name, row.name);
    if (distance < best_distance && !row.hidden && is_offered(row, personality) &&
        foreign_word(name) == nullptr) {
      best = &row;
      best_distance = distance;
    }
  }
  return best == nullptr ? "" : fmt::format("; did you mean {}?", long_flag(*best));
}

class Parser {
 public:
  Parser(Personality personality, Words words) : words_(words) { line_.personality = personality; }

  Result<CommandLine> run();

 private:
  Result<std::optional<Found>> look_up(std::string_view word) const;
  Result<std::optional<Found>> look_up_long(std::string_view word) const;
  std::optional<Found> look_up_short(std::string_view word) const;
  Result<void> take(Found found);
  Result<void> take_action(const Option& row, const std::optional<std::string>& value);
  Result<std::string> value_of(const Found& found);
  void take_program(Words rest, bool dashes_seen);

  Words words_;
  std::size_t next_ = 0;
  bool stop_ = false;  // an option such as --help was met: nothing behind it matters
  CommandLine line_;
};

// None: the word is a value or the program. Error: it looks like an option and is none.
Result<std::optional<Found>> Parser::look_up(std::string_view word) const {
  if (word.size() < 2 || word[0] != '-') {
    return std::nullopt;
  }
  if (word.starts_with("--")) {
    auto found = look_up_long(word);
    if (!found || *found) {
      return found;
    }
  } else if (auto found = look_up_short(word)) {
    return found;
  }
  if (is_negative_number(word) || word.find(' ') != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string name = with_dashes(word.substr(0, word.find('=')));
  const std::string_view bare = std::string_view(name).substr(name.starts_with("--") ? 2 : 1);
  return failure(Errc::usage,
                 fmt::format("unknown option {}{}",
                             word.substr(0, word.find('=')),
                             did_you_mean(bare, line_.personality)));
}

Result<std::optional<Found>> Parser::look_up_long(std::string_view word) const {
  const auto equals = word.find('=');
  const std::string name = with_dashes(
      word.substr(2, equals == std::string_view::npos ? std::string_view::npos : equals - 2));
  Found found;
  if (equals != std::string_view::npos) {
    found.value = std::string(word.substr(equals + 1));
  }
  found.row = find_option(name);
  if (found.row != nullptr && is_offered(*found.row, line_.personality)) {
    return found;
  }
  // torchrun's options first, so that each of its unique prefixes stays one.
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
                     fmt::format("--{} is short for several options: {}", name, join(flags, " ")));
    }
  }
  return std::nullopt;
}

std::optional<Found> Parser::look_up_short(std::string_view word) const {
  const Option* row = find_letter(word[1]);
  if (row == nullptr) {
    return std::nullopt;
  }
  Found found{row, std::nullopt};
  if (word.size() > 2) {
    found.value = std::string(word.substr(word[2] == '=' ? 3 : 2));
  }
  return found;
}

Result<std::string> Parser::value_of(const Found& found) {
  if (found.value) {
    return *found.value;
  }
  const bool there = next_ < words_.size() && words_[next_] != "--";
  if (there) {
    // What looks like an option is no value, known or not.
    const auto option_like = look_up(words_[next_]);
    if (option_like && !*option_like) {
      return words_[next_++];
    }
  }
  const std::string flag = long_flag(*found.row);
  return failure(Errc::usage,
                 there ? fmt::format("{} needs a value ({}); one that starts with '-' is written "
                                     "{}=VALUE",
                                     flag,
                                     found.row->value_name,
                                     flag)
                       : fmt::format("{} needs a value ({})", flag, found.row->value_name));
}

// What an option of kind action asks for; none: not with this word.
std::optional<Errand> request_of(OptionId id, const std::string& word) {
  static const std::map<std::string, Errand, std::less<>> kSubjects{
      {"config", Errand::explain_config},
      {"plan", Errand::explain_plan},
      {"env", Errand::explain_env}};
  static const std::map<std::string, Errand, std::less<>> kShells{{"bash", Errand::bash_completion},
                                                                  {"zsh", Errand::zsh_completion}};
  switch (id) {
    case OptionId::help:
      return Errand::help;
    case OptionId::version:
      return Errand::version;
    case OptionId::print_man:
      return Errand::man_page;
    default:
      break;
  }
  const auto& words = id == OptionId::print_completion ? kShells : kSubjects;
  const auto found = words.find(word);
  return found == words.end() ? std::nullopt : std::optional(found->second);
}

Result<void> Parser::take_action(const Option& row, const std::optional<std::string>& value) {
  const auto wanted = request_of(row.id, value.value_or("config"));
  if (!wanted) {
    return failure(Errc::usage,
                   fmt::format("{}={}: must be one of {}", long_flag(row), *value, row.choices));
  }
  line_.errand = *wanted;
  stop_ = row.id != OptionId::explain && row.id != OptionId::dry_run;
  return {};
}

Result<void> Parser::take(Found found) {
  const Option& row = *found.row;
  const bool bare =
      row.kind == ValueKind::flag || (row.kind == ValueKind::action && row.value_name.empty());
  if (bare && found.value) {
    // "-mr3" is "-m -r3", as argparse reads it.
    const bool bundle = !words_[next_ - 1].starts_with("--") && !found.value->empty();
    const auto behind = bundle ? look_up_short("-" + *found.value) : std::nullopt;
    if (!behind) {
      return failure(
          Errc::usage,
          fmt::format("{} takes no value, but was given '{}'", long_flag(row), *found.value));
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
  const bool optional_value = row.id == OptionId::explain || row.id == OptionId::dry_run;
  if (!bare && !optional_value) {
    auto value = value_of(found);
    if (!value) {
      return std::unexpected(value.error());
    }
    found.value = std::move(*value);
  }
  if (row.kind == ValueKind::action) {
    return take_action(row, found.value);
  }
  line_.options[row.id] = *found.value;
  return {};
}

// One "--" is swallowed: the one before the program or the one right behind it.
void Parser::take_program(Words rest, bool dashes_seen) {
  line_.program = rest.front();
  rest = rest.subspan(1);
  if (!dashes_seen && !rest.empty() && rest.front() == "--") {
    rest = rest.subspan(1);
  }
  line_.args.assign(rest.begin(), rest.end());
}

Result<CommandLine> Parser::run() {
  while (!stop_ && next_ < words_.size()) {
    const std::string& word = words_[next_++];
    const bool dashes = word == "--";
    if (dashes && next_ == words_.size()) {
      break;
    }
    auto found = dashes ? std::nullopt : look_up(word);
    if (!found) {
      return std::unexpected(found.error());
    }
    if (!*found) {
      take_program(words_.subspan(dashes ? next_ : next_ - 1), dashes);
      return std::move(line_);
    }
    if (auto taken = take(**found); !taken) {
      return std::unexpected(taken.error());
    }
  }
  if (!stop_) {
    return failure(Errc::usage,
                   "nothing to run: name a script, a module or a program after the options "
                   "(examples: muster --help)");
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
                                       const std::vector<std::string>& words) {
  return Parser(personality, words).run();
}

}  // namespace muster
