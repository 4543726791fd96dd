// SPDX-License-Identifier: Apache-2.0
// How the user's program is run, and where its output is written.
#include "config/resolve/resolve.hpp"
#include "support/catch.hpp"
#include "unit/config/fake_machine.hpp"

using namespace muster;

namespace {

using Args = std::vector<std::string>;

struct Launch {
  Args args;
  Personality personality = Personality::muster;
  FakeMachine machine{};
  std::map<std::string, std::string, std::less<>> variables{{"PATH", "/usr/bin"}};

  [[nodiscard]] Result<Resolved> resolved() const {
    const auto line = parse_command_line(personality, args);
    MUSTER_RETURN_IF_ERROR(line);
    return resolve(*line, Environ(variables), machine);
  }

  [[nodiscard]] LaunchConfig config() const {
    const auto out = resolved();
    if (!out) {
      FAIL(out.error().message);
    }
    return out->config;
  }

  [[nodiscard]] Program program() const { return config().program; }

  [[nodiscard]] Error error() const {
    const auto out = resolved();
    return out ? Error{Errc::internal, "no error"} : out.error();
  }
};

}  // namespace

TEST_CASE("resolve: the file determines how it is run") {
  CHECK(Launch{{"train.py", "--lr=1"}}.program() ==
        Program{ProgramKind::python_script, "python3", "train.py", {"--lr=1"}, "PATH"});
  CHECK(Launch{{"./solver", "x"}}.program() ==
        Program{ProgramKind::executable, "", "./solver", {"x"}});
  CHECK(Launch{{"true"}}.program().kind == ProgramKind::executable);
  CHECK(Launch{{"-m", "pkg.train"}}.program() ==
        Program{ProgramKind::python_module, "python3", "pkg.train", {}, "PATH"});
  Launch folder{{"app"}};
  folder.machine.kinds["app"] = FileKind::folder;
  folder.machine.kinds["app/__main__.py"] = FileKind::plain;
  CHECK(folder.program().kind == ProgramKind::python_script);
  for (const std::string app : {"app.pyz", "app.pyzw"}) {  // created by zipapp
    Launch archive{{app}};
    archive.machine.kinds[app] = FileKind::plain;
    CHECK(archive.program().kind == ProgramKind::python_script);
  }
}

TEST_CASE("resolve: an executable script is still Python, unless --no-python is set") {
  Launch launch{{"./run.py"}};
  launch.machine.kinds["./run.py"] = FileKind::executable;
  CHECK(launch.program().kind == ProgramKind::python_script);
  launch.args = {"--no-python", "./run.py"};
  CHECK(launch.program().kind == ProgramKind::executable);
  launch.args = {"--run-path", "--no-python", "./run.py"};
  CHECK(launch.program().kind == ProgramKind::python_script);
}

TEST_CASE("resolve: rejects a file that is neither Python nor executable before anything starts") {
  Launch launch{{"notes.txt"}};
  launch.machine.kinds["notes.txt"] = FileKind::plain;
  CHECK(launch.error().code == Errc::not_possible);
  CHECK(launch.error().message.find("chmod +x") != std::string::npos);
  launch.args = {"./none"};
  CHECK(launch.error() == Error{Errc::not_found, "the program ./none does not exist"});
  launch.args = {"none.py"};
  CHECK(launch.error() == Error{Errc::not_found, "the script none.py does not exist"});
  launch.machine.folder = "/work";
  CHECK(launch.error() == Error{Errc::not_found, "the script none.py does not exist in /work"});
  launch.args = {"none"};
  CHECK(launch.error().code == Errc::not_found);
  launch.machine.kinds["here"] = FileKind::executable;
  launch.args = {"here"};
  CHECK(launch.error().message ==
        "here is not in PATH; to run the file in this directory, use ./here");
  launch.machine.kinds["dir"] = FileKind::folder;
  launch.args = {"dir"};
  CHECK(launch.error().code == Errc::not_possible);
}

TEST_CASE("resolve: a program on a file system that is mounted noexec") {
  Launch launch{{"./solver"}};
  launch.machine.kinds["./solver"] = FileKind::noexec;
  const Error error = launch.error();
  CHECK(error.code == Errc::not_possible);
  CHECK(error.message.starts_with("./solver is on a file system mounted noexec"));
}

TEST_CASE("resolve: names with macros are known only per worker") {
  CHECK(Launch{{"--no-python", "./run_${local_rank}"}}.program().name == "./run_${local_rank}");
  CHECK(Launch{{"part_$local_rank.py"}, Personality::torchrun}.program().name ==
        "part_$local_rank.py");
  CHECK(Launch{{"part_$local_rank.py"}}.error() ==
        Error{Errc::not_found, "the script 'part_$local_rank.py' does not exist"});
}

TEST_CASE("resolve: called as torchrun, every script is Python") {
  Launch launch{{"notes.txt"}, Personality::torchrun};
  launch.machine.kinds["notes.txt"] = FileKind::plain;
  CHECK(launch.program().kind == ProgramKind::python_script);
  launch.args = {"./solver"};
  CHECK(launch.program().kind == ProgramKind::python_script);
  launch.args = {"--no-python", "./solver"};
  CHECK(launch.program().kind == ProgramKind::executable);
  CHECK(launch.config().local_rank_arg.empty());
}

TEST_CASE("resolve: called as torch.distributed.launch, it passes the local rank as an argument") {
  Launch launch{{"train.py"}, Personality::torch_distributed_launch};
  CHECK(launch.config().local_rank_arg == "local_rank");
  launch.args = {"--use-env", "train.py"};
  CHECK(launch.config().local_rank_arg.empty());
  launch.args = {"--no-python", "./solver"};
  CHECK(launch.error() == Error{Errc::usage, "--no-python also needs --use-env here"});
  launch.args = {"--no-python", "--use-env", "./solver"};
  CHECK(launch.program().kind == ProgramKind::executable);
}

TEST_CASE("resolve: rejects --module with --no-python or --run-path") {
  CHECK(Launch{{"-m", "--no-python", "x"}}.error() ==
        Error{Errc::usage, "--module and --no-python cannot be used together"});
  CHECK(Launch{{"-m", "--run-path", "x"}}.error().code == Errc::usage);
  Launch launch{{"--no-python", "./solver"}};
  launch.variables["PET_MODULE"] = "1";
  CHECK(launch.error().code == Errc::usage);
  launch.variables["PET_MODULE"] = "0";
  CHECK(launch.program().kind == ProgramKind::executable);
}

TEST_CASE(
    "resolve: the interpreter is PYTHON_EXEC, else the active environment's, else from PATH") {
  Launch launch{{"train.py"}};
  CHECK(launch.program().python == "python3");
  launch.variables["VIRTUAL_ENV"] = "/venv";
  CHECK(launch.program().python == "python3");
  launch.machine.kinds["/venv/bin/python3"] = FileKind::executable;
  CHECK(launch.program().python == "/venv/bin/python3");
  launch.variables["PYTHON_EXEC"] = "/opt/python";
  CHECK(launch.program().python == "/opt/python");
  Launch none{{"train.py"}};
  none.machine.kinds.erase("/usr/bin/python3");
  CHECK(none.error().code == Errc::not_found);
  CHECK(none.error().message.find("set PYTHON_EXEC") != std::string::npos);
}

TEST_CASE("resolve: a launcher in an environment's bin uses the python next to it") {
  Launch launch{{"train.py"}};
  launch.machine.started_as = "/venv/bin/torchrun";
  launch.machine.kinds["/venv/bin/python3"] = FileKind::executable;
  CHECK(launch.program().python == "python3");  // not in a virtual environment, as in /usr/bin
  launch.machine.kinds["/venv/bin/../pyvenv.cfg"] = FileKind::plain;
  CHECK(launch.program().python == "/venv/bin/python3");
  CHECK(launch.program().python_origin == "beside /venv/bin/torchrun");
  launch.variables["VIRTUAL_ENV"] = "/active";
  launch.machine.kinds["/active/bin/python3"] = FileKind::executable;
  CHECK(launch.program().python == "/venv/bin/python3");
  launch.machine.kinds.erase("/venv/bin/../pyvenv.cfg");
  CHECK(launch.program().python == "/active/bin/python3");
  launch.machine.kinds["/venv/bin/../conda-meta"] = FileKind::folder;
  CHECK(launch.program().python == "/venv/bin/python3");
  launch.variables["PYTHON_EXEC"] = "/opt/python";
  CHECK(launch.program().python == "/opt/python");
  launch.variables.erase("PYTHON_EXEC");
  launch.machine.started_as = "muster";
  CHECK(launch.program().python == "/active/bin/python3");
}

TEST_CASE("resolve: --explain reports why the program could not be started") {
  for (const char* question : {"--explain", "--explain=plan", "--explain=env"}) {
    CHECK(Launch{{question, "none.py"}}.program().problem == "the script none.py does not exist");
    CHECK(Launch{{question, "./none"}}.program().problem == "the program ./none does not exist");
    CHECK(Launch{{question, "./solver"}}.program().problem.empty());
  }
  Launch none{{"--explain", "train.py"}};
  none.machine.kinds.erase("/usr/bin/python3");
  CHECK(none.program().problem.starts_with("python3 is not in PATH"));
  CHECK(Launch{{"none.py"}}.error().code == Errc::not_found);
  CHECK(Launch{{"--explain", "-m", "--no-python", "x"}}.error().code == Errc::usage);
}

TEST_CASE("resolve: redirects and tee accept stream specs with local ranks of any length") {
  const LaunchConfig config = Launch{{"--redirects=3", "-t", "0:1,12:3", "true"}}.config();
  CHECK(config.redirects.of(5) == 3);
  CHECK(config.tee.of(12) == 3);
  CHECK(config.tee.of(1) == 0);
  CHECK(Launch{{"--tee=0:1,", "true"}}.error().message.starts_with("--tee=0:1,: must be"));
}

TEST_CASE("resolve: filters local ranks") {
  CHECK_FALSE(Launch{{"true"}}.config().local_ranks_filter);
  CHECK(Launch{{"--local-ranks-filter=0, 2", "true"}}.config().local_ranks_filter ==
        std::set<int>{0, 2});
  CHECK(Launch{{"--local-ranks-filter=0,a", "true"}}.error().code == Errc::usage);
}

TEST_CASE("resolve: ranks on the console are numbers and ranges") {
  CHECK_FALSE(Launch{{"true"}}.config().console_ranks);
  CHECK(Launch{{"--console-ranks=0,8-10", "true"}}.config().console_ranks->numbers() ==
        std::vector{0, 8, 9, 10});
  for (const auto* text : {"a", "3-1", "-1", ",", "65536"}) {
    CHECK(Launch{{std::string("--console-ranks=") + text, "true"}}.error() ==
          Error{Errc::usage,
                std::string("--console-ranks=") + text +
                    ": must be ranks below 65536, for example 0,8-15"});
  }
}

TEST_CASE("resolve: folds lines by default on a terminal; warns if no lines are labelled") {
  CHECK(Launch{{"true"}}.config().fold == FoldLines::automatic);
  CHECK(Launch{{"--fold=off", "true"}}.config().fold == FoldLines::off);
  for (const auto* option : {"--label", "--tee=1:1"}) {
    const Launch launch{{"--fold=on", option, "true"}};
    CHECK(launch.config().fold == FoldLines::on);
    CHECK(launch.resolved()->warnings.empty());
  }
  CHECK(Launch{{"--fold=on", "true"}}.resolved()->warnings ==
        Args{"--fold=on has no effect without --label or --tee"});
}

TEST_CASE("resolve: filters for duplicates; an empty value is one filter that matches everything") {
  CHECK_FALSE(Launch{{"true"}}.config().duplicate_stdout_filters);
  CHECK(Launch{{"--duplicate-stdout-filters=a,,b,c", "true"}}.config().duplicate_stdout_filters ==
        Args{"a,b", "c"});
  CHECK(Launch{{"--duplicate-stderr-filters=", "true"}}.config().duplicate_stderr_filters ==
        Args{""});
  CHECK(Launch{{"--log-dir=/dev/null", "--duplicate-stderr-filters=x", "true"}}.error().code ==
        Errc::usage);
}

TEST_CASE("resolve: the log folder may be absent or a folder, not a file") {
  Launch launch{{"--log-dir=logs", "true"}};
  CHECK(launch.config().log_dir == "logs");
  launch.machine.kinds["logs"] = FileKind::folder;
  CHECK(launch.config().log_dir == "logs");
  launch.machine.kinds["logs"] = FileKind::plain;
  CHECK(launch.error() == Error{Errc::usage, "--log-dir=logs: is a file, not a directory"});
  launch.args = {"--log-dir=", "true"};
  CHECK(launch.config().log_dir.empty());
}

TEST_CASE("resolve: with /dev/null as log folder it writes no files and lists ignored options") {
  Launch launch{{"--log-dir=/dev/null", "true"}};
  CHECK(launch.config().logs_disabled);
  CHECK(launch.resolved()->warnings.empty());
  launch.args = {"--log-dir=/dev/null", "--tee=3", "--local-ranks-filter=0", "true"};
  CHECK(launch.config().tee.all == 3);  // on the console, with prefixes
  CHECK(launch.config().local_ranks_filter);
  CHECK(launch.resolved()->warnings.empty());
  launch.args = {"--log-dir=/dev/null", "--redirects=3", "true"};
  CHECK(launch.config().redirects == StdSpec{});
  CHECK(launch.resolved()->warnings.size() == 1);
}

TEST_CASE("resolve: the prefix template, from the option, its variable or the older variable") {
  Launch launch{{"true"}};
  CHECK(launch.config().log_line_prefix_template.empty());
  launch.variables["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = "old ";
  CHECK(launch.config().log_line_prefix_template == "old ");
  launch.variables["PET_LOG_LINE_PREFIX_TEMPLATE"] = "pet ";
  CHECK(launch.config().log_line_prefix_template == "pet ");
  launch.args = {"--log-line-prefix-template=new ", "true"};
  CHECK(launch.config().log_line_prefix_template == "new ");
}
