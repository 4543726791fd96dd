// SPDX-License-Identifier: Apache-2.0
#include "config/options/command_line.hpp"

#include "base/text.hpp"
#include "support/catch.hpp"

using namespace muster;

namespace {

Result<CommandLine> parse(const std::vector<std::string>& args,
                          Personality personality = Personality::muster) {
  return parse_command_line(personality, args);
}

// The value of one option if the rest of the command line is "x.py".
std::string value(std::vector<std::string> args, OptionId id) {
  args.emplace_back("x.py");
  const auto line = parse(args);
  if (!line) {
    return "error: " + line.error().message;
  }
  return line->options.contains(id) ? line->options.at(id) : "not given";
}

std::string error(const std::vector<std::string>& args,
                  Personality personality = Personality::muster) {
  const auto line = parse(args, personality);
  if (line) {
    return "no error";
  }
  CHECK(line.error().code == Errc::usage);
  CHECK(line.error().message.find('\n') == std::string::npos);
  return line.error().message;
}

}  // namespace

TEST_CASE("command line: every option accepts its value in both spellings, joined or separate") {
  for (const Option& row : all_options()) {
    if (row.kind == ValueKind::action || row.kind == ValueKind::flag) {
      continue;
    }
    std::string underscored(row.name);
    std::ranges::replace(underscored, '-', '_');
    for (const std::string& name : {std::string(row.name), underscored}) {
      INFO(name);
      const bool needs_value = row.bare_value.empty();
      CHECK(value({"--" + name, "7"}, row.id) == (needs_value ? "7" : row.bare_value));
      CHECK(value({"--" + name + "=7"}, row.id) == "7");
      CHECK(value({"--" + name + "="}, row.id).empty());
    }
  }
}

TEST_CASE("command line: every flag works in both spellings and accepts no value") {
  for (const Option& row : all_options()) {
    if (row.kind != ValueKind::flag || !is_offered(row, Personality::muster)) {
      continue;
    }
    std::string underscored(row.name);
    std::ranges::replace(underscored, '-', '_');
    INFO(underscored);
    CHECK(value({long_flag(row)}, row.id) == "1");
    CHECK(value({"--" + underscored}, row.id) == "1");
    CHECK(error({long_flag(row) + "=1", "x.py"}) ==
          long_flag(row) + " takes no value, but has '1'");
  }
}

TEST_CASE("command line: short options, joined values and bundles") {
  CHECK(value({"-r3"}, OptionId::redirects) == "3");
  CHECK(value({"-r=3"}, OptionId::redirects) == "3");
  CHECK(value({"-t", "1:3"}, OptionId::tee) == "1:3");
  CHECK(value({"-m"}, OptionId::module) == "1");
  CHECK(value({"-mr3"}, OptionId::redirects) == "3");
  CHECK(value({"-mr", "3"}, OptionId::redirects) == "3");
  CHECK(error({"-m=", "a"}) == "--module takes no value, but has ''");
  CHECK(error({"--module=", "a"}) == "--module takes no value, but has ''");
  CHECK(error({"-mq", "a"}) == "--module takes no value, but has 'q'");
}

TEST_CASE("command line: the last of several values wins") {
  CHECK(value({"--tee=1", "-t2", "--tee", "3"}, OptionId::tee) == "3");
}

TEST_CASE("command line: accepts unique prefixes, even if both spellings match") {
  CHECK(value({"--redirect=3"}, OptionId::redirects) == "3");
  CHECK(value({"--nproc_per", "2"}, OptionId::nproc_per_node) == "2");
  CHECK(value({"--nproc-per=2"}, OptionId::nproc_per_node) == "2");
  CHECK(value({"--nproc=2"}, OptionId::nproc_per_node) == "2");
  CHECK(value({"--rdzv-c", "a=1"}, OptionId::rdzv_conf) == "a=1");
  CHECK(value({"--no_p"}, OptionId::no_python) == "1");
  CHECK(value({"--sh", "3"}, OptionId::shutdown_timeout) == "3");
}

TEST_CASE("command line: our own options do not make torchrun's prefixes ambiguous") {
  CHECK(value({"--v"}, OptionId::virtual_local_rank) == "1");
  CHECK(value({"--e", "null"}, OptionId::event_log_handler) == "null");
  CHECK(value({"--std", "1"}, OptionId::stdin_rank) == "1");
}

TEST_CASE("command line: an ambiguous prefix is an error that names the candidates") {
  CHECK(error({"--master=1", "x.py"}) ==
        "--master is ambiguous; it matches --master-addr --master-port");
}

TEST_CASE("command line: arguments after the program belong to the program") {
  const auto line = parse({"--tee", "3", "x.py", "--tee", "1", "-h", "--nnodes=9"});
  REQUIRE(line);
  CHECK(line->program == "x.py");
  CHECK(line->args == std::vector<std::string>{"--tee", "1", "-h", "--nnodes=9"});
  CHECK(line->options.at(OptionId::tee) == "3");
  CHECK(line->command == Command::launch);
}

TEST_CASE("command line: removes one double dash, before the program or right after it") {
  struct Row {
    std::vector<std::string> command;
    std::string program;
    std::vector<std::string> args;
  };

  const std::vector<Row> rows{{{"-m", "--", "pkg", "--a"}, "pkg", {"--a"}},
                              {{"--", "s.py", "-x"}, "s.py", {"-x"}},
                              {{"s.py", "--", "-x"}, "s.py", {"-x"}},
                              {{"s.py", "-x", "--", "-y"}, "s.py", {"-x", "--", "-y"}},
                              {{"--", "s.py", "--", "-x"}, "s.py", {"--", "-x"}},
                              {{"s.py", "--", "--", "-x"}, "s.py", {"--", "-x"}},
                              {{"--", "--tee"}, "--tee", {}}};
  for (const Row& row : rows) {
    INFO(join(row.command, " "));
    const auto line = parse(row.command);
    REQUIRE(line);
    CHECK(line->program == row.program);
    CHECK(line->args == row.args);
  }
}

TEST_CASE("command line: distinguishes values that start with a dash from options, like argparse") {
  CHECK(value({"--max-restarts", "-1"}, OptionId::max_restarts) == "-1");
  CHECK(value({"--max-restarts", "-.5"}, OptionId::max_restarts) == "-.5");
  CHECK(value({"--role", "-"}, OptionId::role) == "-");
  CHECK(value({"--role", "-a b"}, OptionId::role) == "-a b");
  CHECK(value({"--role", ""}, OptionId::role).empty());
  CHECK(error({"--log-dir", "-x", "x.py"}) ==
        "--log-dir needs a value (DIR); if the value starts with '-', write --log-dir=VALUE");
  CHECK(error({"--log-dir", "--tee", "x.py"}).starts_with("--log-dir needs a value"));
  CHECK(error({"--log-dir"}) == "--log-dir needs a value (DIR)");
  CHECK(error({"--log-dir", "--", "x"}) == "--log-dir needs a value (DIR)");
}

TEST_CASE("command line: suggests the option that was probably meant") {
  CHECK(error({"--nproc_per_nodes", "2", "x.py"}) ==
        "unknown option --nproc_per_nodes; did you mean --nproc-per-node?");
  CHECK(error({"--log_dirs=x", "x.py"}) == "unknown option --log_dirs; did you mean --log-dir?");
  CHECK(error({"-np", "4", "x.py"}) == "unknown option -np; did you mean --nproc-per-node?");
  CHECK(error({"--gpus=4", "x.py"}) == "unknown option --gpus; did you mean --nproc-per-node?");
  CHECK(error({"--exit-barrier-timeout=4", "x.py"}) ==
        "unknown option --exit-barrier-timeout; put the program's options after its name");
  CHECK(error({"--use-env", "x.py"}).starts_with("unknown option --use-env"));
}

TEST_CASE("command line: an error without a program") {
  for (const auto& args :
       std::vector<std::vector<std::string>>{{}, {"--tee=3"}, {"--"}, {"-m"}, {"--explain"}}) {
    CHECK(error(args).starts_with("no program given:"));
  }
}

TEST_CASE("command line: requests that need no program act at once") {
  CHECK(parse({"--help"})->command == Command::help);
  CHECK(parse({"-h", "--nonsense"})->command == Command::help);
  CHECK(parse({"--version"})->command == Command::version);
  CHECK(parse({"--print-completion", "bash"})->command == Command::bash_completion);
  CHECK(parse({"--pr=zsh"})->command == Command::zsh_completion);
  CHECK(parse({"--print-man"})->command == Command::man_page);
  CHECK(error({"--print-completion=tcsh"}) == "--print-completion=tcsh: must be one of bash|zsh");
}

TEST_CASE("command line: explain accepts its subject only after an equals sign") {
  CHECK(parse({"--explain", "plan"})->command == Command::explain_config);
  CHECK(parse({"--explain", "plan"})->program == "plan");
  CHECK(parse({"--explain=plan", "x"})->command == Command::explain_plan);
  CHECK(parse({"--explain=all", "x"})->command == Command::explain_all);
  CHECK(parse({"--dry-run=env", "x"})->command == Command::explain_env);
  CHECK(parse({"--dry_run", "x"})->command == Command::explain_config);
  CHECK(error({"--explain=round", "x"}) == "--explain=round: must be one of config|all|plan|env");
}

TEST_CASE("command line: the name under which muster is called") {
  CHECK(personality_of("/usr/local/bin/torchrun") == Personality::torchrun);
  CHECK(personality_of("torch.distributed.run") == Personality::torchrun);
  CHECK(personality_of("./torch.distributed.launch") == Personality::torch_distributed_launch);
  CHECK(personality_of("muster") == Personality::muster);
  CHECK(personality_of("/x/torchrun/muster") == Personality::muster);
}

TEST_CASE("command line: use-env belongs to torch.distributed.launch") {
  const auto line = parse({"--use_env", "x.py"}, Personality::torch_distributed_launch);
  REQUIRE(line);
  CHECK(line->options.at(OptionId::use_env) == "1");
}
