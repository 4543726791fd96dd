// SPDX-License-Identifier: Apache-2.0
#include "plan/process_specs.hpp"

#include "plan/explain.hpp"
#include "plan/log_layout.hpp"
#include "plan/macros.hpp"
#include "plan/worker_argv.hpp"
#include "support/catch.hpp"

#include <algorithm>

using namespace muster;

namespace {

using Words = std::vector<std::string>;

struct Job {
  LaunchConfig config{};
  Environ environ{};
  PlanContext context{"logs/run", "node1", false};
  int attempt = 0;
  int rank_first = 0;

  explicit Job(int nproc = 2) {
    config.nproc = nproc;
    config.program = {ProgramKind::executable, "", "./solver", {"in.dat"}};
  }

  [[nodiscard]] std::vector<ProcessSpec> specs() const {
    auto assignment = assign_alone(config.nproc, attempt, {"127.0.0.1", 4711});
    assignment.rank_first = rank_first;
    const auto out = process_specs(config, environ, assignment, context);
    if (!out) {
      FAIL(out.error().message);
    }
    return *out;
  }
};

}  // namespace

TEST_CASE("macros: expanded like string.Template.safe_substitute") {
  const Macros macros{{"local_rank", "3"}, {"rank", "7"}};

  struct Row {
    std::string_view text;
    std::string_view expected;
  };

  for (const Row& row : {Row{"plain", "plain"},
                         Row{"$local_rank", "3"},
                         Row{"${local_rank}", "3"},
                         Row{"a${rank}b$rank.c", "a7b7.c"},
                         Row{"$$local_rank", "$local_rank"},
                         Row{"$$$rank", "$7"},
                         Row{"$HOME ${HOME}", "$HOME ${HOME}"},
                         Row{"$local_ranks", "$local_ranks"},
                         Row{"${local_rank", "${local_rank"},
                         Row{"${ rank }", "${ rank }"},
                         Row{"$1 $ ${}", "$1 $ ${}"},
                         Row{"100$", "100$"},
                         Row{"", ""}}) {
    CHECK(expand_macros(row.text, macros, MacroSyntax::python_template) == row.expected);
  }
}

TEST_CASE("worker argv: script, module and executable") {
  Job job;
  CHECK(worker_argv(job.config, {}, 0) == Words{"./solver", "in.dat"});
  job.config.program = {ProgramKind::python_script, "python3", "x.py", {"-v"}};
  CHECK(worker_argv(job.config, {}, 0) == Words{"python3", "-u", "x.py", "-v"});
  job.config.program.kind = ProgramKind::python_module;
  CHECK(worker_argv(job.config, {}, 0) == Words{"python3", "-u", "-m", "x.py", "-v"});
}

TEST_CASE("macros: with braces only, shell code stays unchanged") {
  const Macros macros{{"local_rank", "3"}};
  const auto expand = [&](std::string_view text) {
    return expand_macros(text, macros, MacroSyntax::braces);
  };
  CHECK(expand("part_${local_rank}.bin") == "part_3.bin");
  CHECK(expand("$${local_rank}") == "$3");
  for (const std::string text : {"kill -9 $$",
                                 "$local_rank",
                                 "$$local_rank",
                                 "${local_ranks}",
                                 "${local_rank",
                                 "${local_rank:-0}",
                                 "$HOME/${x}$1$",
                                 "$"}) {
    CHECK(expand(text) == text);
  }
}

TEST_CASE("worker argv: macros in program and arguments, the local rank before the arguments") {
  Job job;
  job.config.program = {
      ProgramKind::python_script, "py$local_rank", "x$local_rank.py", {"${local_rank}", "$$"}};
  for (const Personality name : {Personality::torchrun, Personality::torch_distributed_launch}) {
    job.config.personality = name;
    CHECK(worker_argv(job.config, {}, 5) == Words{"py$local_rank", "-u", "x5.py", "5", "$"});
  }
  job.config.personality = Personality::muster;
  CHECK(worker_argv(job.config, {}, 5) ==
        Words{"py$local_rank", "-u", "x$local_rank.py", "5", "$$"});
  job.config.local_rank_arg = "local_rank";
  CHECK(worker_argv(job.config, {}, 5)[3] == "--local_rank=5");
}

TEST_CASE("worker argv: the requested local rank is LOCAL_RANK") {
  Job job(1);
  job.config.local_rank_arg = "local_rank";
  job.config.task.emplace();
  job.config.task->local_rank = 5;
  CHECK(worker_argv(job.config, {}, 0)[1] == "--local_rank=5");
  job.config.task->has_own_gpu = true;
  CHECK(worker_argv(job.config, {}, 0)[1] == "--local_rank=0");
  job.config.task.reset();
  job.config.virtual_local_rank = true;
  CHECK(worker_argv(job.config, {}, 3)[1] == "--local_rank=0");
}

TEST_CASE("assignment: a single node has ranks 0 to nproc-1") {
  const Assignment a = assign_alone(4, 2, Endpoint{"127.0.0.1", 99});
  CHECK(a.world_size == 4);
  CHECK(a.local_world_size == 4);
  CHECK(a.role_world_size == 4);
  CHECK(a.rank_first == 0);
  CHECK(a.group_world_size == 1);
  CHECK(a.attempt == 2);
  CHECK(a.restart_count == 2);
  CHECK(a.master_addr == "127.0.0.1");
  CHECK(a.master_port == 99);
}

TEST_CASE("log layout: as torchrun's users expect, with one path component for any run id") {
  CHECK(run_dir_name("job7", "ab12cd34") == "job7_ab12cd34");
  CHECK(run_dir_name("../x/y", "ab12cd34") == ".._x_y_ab12cd34");
  CHECK(attempt_dir("logs/run", 2) == "logs/run/attempt_2");
  CHECK(worker_dir("logs/run", 0, 12) == "logs/run/attempt_0/12");
}

TEST_CASE("process specs: one per local rank, in order, with its error file") {
  const auto specs = Job(3).specs();
  REQUIRE(specs.size() == 3);
  for (int rank = 0; rank < 3; ++rank) {
    const ProcessSpec& spec = specs[static_cast<std::size_t>(rank)];
    CHECK(spec.local_rank == rank);
    CHECK(spec.rank == rank);
    const std::string path = "logs/run/attempt_0/" + std::to_string(rank) + "/error.json";
    CHECK(std::ranges::find(spec.environment, "TORCHELASTIC_ERROR_FILE=" + path) !=
          spec.environment.end());
  }
}

TEST_CASE("process specs: without files the error file's name is empty") {
  Job job;
  job.context.run_dir.clear();
  job.config.tee.all = 1;
  const auto specs = job.specs();
  CHECK(std::ranges::find(specs[0].environment, "TORCHELASTIC_ERROR_FILE=") !=
        specs[0].environment.end());
  CHECK(specs[0].standard_output == OutputPlan{OutputKind::capture, "", false, "[default0]:"});
  CHECK(specs[0].standard_error == OutputPlan{OutputKind::capture, "", false, ""});
}

TEST_CASE("process specs: with --label both streams of all shown ranks have a prefix") {
  Job job(2);
  job.config.label = true;
  job.config.redirects.by_rank = {{0, 2}};
  job.config.tee.by_rank = {{1, 1}};
  auto specs = job.specs();
  CHECK(specs[0].standard_output == OutputPlan{OutputKind::capture, "", false, "[default0]:"});
  CHECK(specs[0].standard_error.kind == OutputKind::file);
  CHECK(specs[1].standard_output.kind == OutputKind::file);
  CHECK(specs[1].standard_error.prefix == "[default1]:");
  job.config.local_ranks_filter = std::set<int>{1};
  CHECK(job.specs()[0].standard_output.kind == OutputKind::discard);
}

TEST_CASE(
    "process specs: stdout of several ranks is forwarded by line if it would be interleaved") {
  Job two(2);
  two.context.stdout_is_torn = true;
  CHECK(two.specs()[0].standard_output == OutputPlan{OutputKind::capture, "", false, ""});
  Job alone(1);
  alone.context.stdout_is_torn = true;
  CHECK(alone.specs()[0].standard_output.kind == OutputKind::inherit);
}

TEST_CASE("process specs: if our two streams are the same file, a worker's are joined") {
  Job job(2);
  job.context.stdout_is_torn = true;
  job.context.one_sink = true;
  for (const int nproc : {1, 2}) {
    job.config.nproc = nproc;
    const ProcessSpec spec = job.specs()[0];
    CHECK(spec.standard_output.kind == OutputKind::capture);
    CHECK(spec.standard_output.hangs_up == (nproc == 1));
    CHECK(spec.standard_error == OutputPlan{.kind = OutputKind::joined});
  }
  job.config.label = true;
  CHECK(job.specs()[1].standard_output.prefix == "[default1]:");
  CHECK(job.specs()[1].standard_error.kind == OutputKind::joined);
  job.config.label = false;
  job.config.redirects.by_rank = {{0, 1}, {1, 2}};
  CHECK(job.specs()[0].standard_error.kind == OutputKind::capture);
  CHECK(job.specs()[1].standard_output.kind == OutputKind::capture);
  CHECK(job.specs()[1].standard_error.kind == OutputKind::file);
}

TEST_CASE("process specs: streams that are shown in different ways are not joined") {
  Job job(2);
  job.context = {.run_dir = "", .hostname = "n", .stdout_is_torn = true, .one_sink = true};
  job.config.tee.all = 1;
  CHECK(job.specs()[0].standard_output.prefix == "[default0]:");
  CHECK(job.specs()[0].standard_error == OutputPlan{OutputKind::capture, "", false, ""});
}

TEST_CASE("process specs: stdout is inherited, stderr is forwarded by whole lines") {
  const auto specs = Job(2).specs();
  CHECK(specs[0].standard_output.kind == OutputKind::inherit);
  CHECK(specs[0].standard_error.kind == OutputKind::capture);
  CHECK(specs[0].standard_error.prefix.empty());
}

TEST_CASE(
    "process specs: a single worker on a terminal, or the one with stdin, inherits the terminal") {
  Job alone(1);
  alone.context.stderr_is_terminal = true;
  CHECK(alone.specs()[0].standard_error.kind == OutputKind::inherit);
  Job two(2);
  two.context.stderr_is_terminal = true;
  CHECK(two.specs()[1].standard_error.kind == OutputKind::capture);
  two.config.stdin_rank = 1;
  two.config.stdin_rank_chosen = true;
  CHECK(two.specs()[1].standard_error.kind == OutputKind::inherit);
  CHECK(two.specs()[0].standard_error.kind == OutputKind::capture);
}

TEST_CASE("process specs: a rank that has the terminal by default shows prompts, and is captured") {
  Job two(2);
  two.context.stderr_is_terminal = true;
  two.context.stdin_is_terminal = true;
  two.config.stdin_rank = 0;
  CHECK(two.specs()[0].standard_output.kind == OutputKind::inherit);
  CHECK(two.specs()[0].standard_error.kind == OutputKind::capture);
  CHECK(two.specs()[0].standard_error.prompts);
  CHECK_FALSE(two.specs()[1].standard_error.prompts);
  two.config.label = true;
  CHECK(two.specs()[0].standard_output.prompts);
  two.context.stdin_is_terminal = false;
  CHECK_FALSE(two.specs()[0].standard_output.prompts);
}

TEST_CASE("process specs: one rank gets standard input, the others read end-of-file") {
  Job job(2);
  CHECK(job.specs()[0].standard_input == InputKind::none);
  job.config.stdin_rank = 1;
  CHECK(job.specs()[0].standard_input == InputKind::none);
  CHECK(job.specs()[1].standard_input == InputKind::inherit);
}

TEST_CASE("process specs: redirected streams have separate files, for any number of ranks") {
  Job job(12);
  job.config.redirects.by_rank = {{11, 1}, {2, 2}};
  job.attempt = 3;
  const auto specs = job.specs();
  CHECK(specs[11].standard_output ==
        OutputPlan{OutputKind::file, "logs/run/attempt_3/11/stdout.log", false, ""});
  CHECK(specs[11].standard_error.kind == OutputKind::capture);
  CHECK(specs[2].standard_error.path == "logs/run/attempt_3/2/stderr.log");
  CHECK(specs[2].standard_output.kind == OutputKind::inherit);
}

TEST_CASE(
    "process specs: tee writes a file and the console with a prefix, and overrides redirects") {
  Job job(2);
  job.config.redirects.all = 3;
  job.config.tee.all = 1;
  const auto specs = job.specs();
  CHECK(specs[1].standard_output ==
        OutputPlan{OutputKind::file, "logs/run/attempt_0/1/stdout.log", true, "[default1]:"});
  CHECK_FALSE(specs[1].standard_error.tee);
}

TEST_CASE("process specs: the prefix template has five macros and keeps unknown ones unchanged") {
  Job job(2);
  job.config.tee.all = 3;
  job.config.role = "trainer";
  job.config.log_line_prefix_template = "${hostname}/${role_name}-${local_rank}:$rank ${pid} ${x} ";
  CHECK(job.specs()[1].standard_output.prefix ==
        "node1/trainer-1:1 " + std::string(kPidMark) + " ${x} ");
}

TEST_CASE("process specs: a filtered rank keeps its files and prints nothing to the console") {
  Job job(2);
  job.config.local_ranks_filter = std::set<int>{0};
  CHECK(job.specs()[0].standard_output.kind == OutputKind::inherit);
  CHECK(job.specs()[1].standard_output.kind == OutputKind::discard);
  CHECK(job.specs()[1].standard_error.kind == OutputKind::keep);
  job.config.tee.all = 1;
  job.config.duplicate_stdout_filters = Words{"loss"};
  CHECK(job.specs()[0].standard_output.tee);
  CHECK(job.specs()[1].standard_output.kind == OutputKind::file);
  CHECK_FALSE(job.specs()[1].standard_output.tee);
  CHECK(job.specs()[1].standard_output.filters.empty());
}

TEST_CASE("process specs: --console-ranks selects ranks of the job, among the filtered ones") {
  Job job(2);
  job.rank_first = 8;
  job.config.console_ranks = CpuSet::parse("1,8");
  CHECK(job.specs()[0].standard_output.kind == OutputKind::inherit);
  CHECK(job.specs()[1].standard_output.kind == OutputKind::discard);
  CHECK(job.specs()[1].standard_error.kind == OutputKind::keep);
  job.config.local_ranks_filter = std::set<int>{1};
  CHECK(job.specs()[0].standard_output.kind == OutputKind::discard);
}

TEST_CASE("process specs: --console-ranks may hide any worker's labelled output, not its files") {
  LaunchConfig config;
  config.label = true;
  CHECK(sees_all_output(config));
  config.console_ranks = CpuSet::parse("0");
  CHECK_FALSE(sees_all_output(config));
  config.tee.all = 3;
  CHECK(sees_all_output(config));
}

TEST_CASE("process specs: labelled lines of four or more workers are folded on a terminal") {
  for (const int count : {3, 4}) {
    Job job(count);
    job.rank_first = 8;
    job.config.label = true;
    const auto plan = job.specs()[2].standard_output;
    CHECK(plan.fold == (count == 4 ? Fold::on_terminal : Fold::never));
    CHECK(plan.rank == (count == 4 ? 10 : 0));
    job.config.fold = FoldLines::on;
    CHECK(job.specs()[2].standard_error.fold == Fold::always);
    job.config.fold = FoldLines::off;
    CHECK(job.specs()[2].standard_error.fold == Fold::never);
    job.config.label = false;
    job.config.fold = FoldLines::on;
    CHECK(job.specs()[2].standard_error.fold == Fold::never);
  }
}

TEST_CASE(
    "process specs: with one launcher per worker, options refer to the local rank on the machine") {
  Job job(1);
  job.config.task.emplace();
  job.config.task->local_rank = 5;
  job.config.label = true;
  CHECK(job.specs()[0].standard_output.prefix == "[default5]:");
  job.config.redirects.by_rank = {{5, 1}};
  CHECK(job.specs()[0].standard_output.path == "logs/run/attempt_0/0/stdout.log");
  job.config.redirects.by_rank = {{0, 1}};
  CHECK(job.specs()[0].standard_output.kind == OutputKind::capture);
  job.config.local_ranks_filter = std::set<int>{0};
  CHECK(job.specs()[0].standard_output.kind == OutputKind::discard);
  job.config.local_ranks_filter = std::set<int>{5};
  CHECK(job.specs()[0].standard_output.kind == OutputKind::capture);
}

TEST_CASE(
    "process specs: tee'd lines that match a filter also go to one file per stream and attempt") {
  Job job(2);
  job.config.tee.all = 3;
  job.config.duplicate_stderr_filters = Words{"error", ""};
  const auto specs = job.specs();
  CHECK(specs[0].standard_error.filters == Words{"error", ""});
  CHECK(specs[0].standard_error.filtered_path == "logs/run/attempt_0/filtered_stderr.log");
  CHECK(specs[0].standard_output.filtered_path.empty());
}

TEST_CASE("process specs: too few GPUs for virtual local ranks is a usage error") {
  Job job(2);
  job.config.virtual_local_rank = true;
  job.environ.set("CUDA_VISIBLE_DEVICES", "0");
  const auto out =
      process_specs(job.config, job.environ, assign_alone(2, 0, {"127.0.0.1", 1}), job.context);
  REQUIRE_FALSE(out);
  CHECK(out.error().code == Errc::usage);
}

TEST_CASE("explain plan: each process, verbatim") {
  Job job(2);
  job.config.program.args = {"two words"};
  job.config.tee.by_rank = {{1, 1}};
  job.config.stdin_rank = 0;
  CHECK(describe_plan(job.specs()) ==
        "rank 0 (local rank 0)\n"
        "  runs    ./solver 'two words'\n"
        "  stdin   inherited\n"
        "  stdout  inherited\n"
        "  stderr  forwarded line by line\n"
        "rank 1 (local rank 1)\n"
        "  runs    ./solver 'two words'\n"
        "  stdin   end of file\n"
        "  stdout  logs/run/attempt_0/1/stdout.log, forwarded with prefix '[default1]:'\n"
        "  stderr  forwarded line by line\n");
}

TEST_CASE("explain plan: a prefix shows ${pid}, which is not known yet") {
  Job job(1);
  job.config.tee.all = 1;
  job.config.log_line_prefix_template = "${pid}/$pid:${rank} ";
  CHECK(describe_plan(job.specs()).contains(", forwarded with prefix '${pid}/${pid}:0 '\n"));
}

TEST_CASE("process specs: each worker gets its own binding, and the plan shows it") {
  Job job(2);
  job.config.numa_plan.ranks = {{CpuSet::parse("0-3").value(), CpuSet::parse("0").value(), 4},
                                {CpuSet::parse("4-7").value(), {}, 4}};
  const auto specs = job.specs();
  CHECK(specs[0].cpus.describe() == "0-3");
  CHECK(specs[0].memory.describe() == "0");
  CHECK(specs[1].cpus.describe() == "4-7");
  CHECK(specs[1].memory.empty());
  const std::string text = describe_plan(specs);
  CHECK(text.find("  cpus    0-3\n  memory  NUMA node 0 preferred\nrank 1") != std::string::npos);
  CHECK(text.ends_with("  cpus    4-7\n"));
}

TEST_CASE(
    "explain env: variables that are set or changed, not inherited ones, with secrets masked") {
  Job job(1);
  job.config.usable_cpus = 3;
  job.environ.set("HOME", "/home/user");
  job.environ.set("OMP_NUM_THREADS", "5");
  const std::string text = describe_env(job.specs(), job.environ);
  CHECK(text.starts_with("# rank 0\nGROUP_RANK=0\n"));
  CHECK(text.find("MASTER_PORT=4711\n") != std::string::npos);
  CHECK(text.find("HOME") == std::string::npos);
  CHECK(text.find("OMP_NUM_THREADS") == std::string::npos);
  ProcessSpec spec;
  spec.environment = {"API_TOKEN=abc"};
  CHECK(describe_env({spec}, {}) == "# rank 0\nAPI_TOKEN=***\n");
}

TEST_CASE("process specs: a spare worker has what all workers share, and streams of its own") {
  Job job(3);
  job.config.redirects.all = 3;
  job.config.numa_plan.ranks = {{CpuSet::parse("0-3").value(), {}, 4},
                                {CpuSet::parse("4-5").value(), {}, 2},
                                {CpuSet::parse("6-7").value(), {}, 2}};
  job.environ.set("HOME", "/home/user");
  const auto specs = job.specs();
  const auto spare = spare_spec(specs, job.context, 4, 2);
  REQUIRE(spare);
  CHECK(spare->argv == specs[0].argv);
  CHECK(spare->cpus.empty());
  CHECK(spare->local_rank == 5);
  CHECK(spare->standard_output.path == "logs/run/attempt_4/spare.2/stdout.log");
  const auto has = [&](const std::string& start) {
    return std::ranges::any_of(spare->environment,
                               [&](const std::string& word) { return word.starts_with(start); });
  };
  CHECK(has("HOME=/home/user"));
  CHECK(has("WORLD_SIZE=3"));
  CHECK(has("MUSTER_SPARE=1"));
  for (const std::string name :
       {"RANK=", "LOCAL_RANK=", "ROLE_RANK=", "TORCHELASTIC_ERROR_FILE="}) {
    CHECK_FALSE(has(name));
  }
}

TEST_CASE("process specs: no spare workers if the command line depends on the rank") {
  Job job(2);
  job.config.program.args = {"--rank=${local_rank}"};
  const auto spare = spare_spec(job.specs(), job.context, 0, 1);
  REQUIRE_FALSE(spare);
  CHECK(spare.error().message == "the command line depends on the rank");
}

TEST_CASE("process specs: ranks that run under debugpy, and start cold") {
  Job job(2);
  job.rank_first = 4;
  job.config.program = {ProgramKind::python_module, "python3", "train", {"-v"}};
  job.config.warm.emplace();
  job.config.debug_ranks = CpuSet::parse("1,5");
  auto assignment = assign_alone(2, 0, {"127.0.0.1", 4711});
  assignment.rank_first = 4;
  CHECK(debugged_ranks(job.config, assignment) == std::vector{1});
  job.context.debug_ports[1] = 5679;
  const auto specs = job.specs();
  CHECK(specs[0].argv == Words{"python3", "-u", "-m", "train", "-v"});
  CHECK(specs[0].warm);
  CHECK(specs[1].argv == Words{"python3",
                               "-u",
                               "-Xfrozen_modules=off",
                               "-m",
                               "debugpy",
                               "--listen",
                               "127.0.0.1:5679",
                               "--wait-for-client",
                               "-m",
                               "train",
                               "-v"});
  CHECK_FALSE(specs[1].warm);
  job.config.debug_waits = false;
  CHECK(job.specs()[1].argv.size() == specs[1].argv.size() - 1);
}
