// SPDX-License-Identifier: Apache-2.0
// The texts that are generated from the table.
#include "base/text.hpp"
#include "config/options/explain.hpp"
#include "config/options/help.hpp"
#include "config/options/rdzv_conf.hpp"
#include "config/resolve/resolve.hpp"
#include "support/catch.hpp"
#include "unit/config/launch.hpp"

#include <algorithm>

using namespace muster;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string roff_flag(const Option& row) {
  std::string out;
  for (const char c : long_flag(row)) {
    out += c == '-' ? "\\-" : std::string(1, c);
  }
  return out;
}

std::string explained(const std::vector<std::string>& args, Personality personality) {
  const auto line = parse_command_line(personality, args);
  REQUIRE(line);
  std::map<std::string, std::string, std::less<>> variables{{"PATH", "/usr/bin"}};
  const auto out = resolve(*line, Environ(variables), FakeMachine{});
  REQUIRE(out);
  return describe_config(out->config, Explained::all);
}

// The line about one setting, with runs of blanks collapsed.
std::string line_of(const std::string& text, std::string_view name) {
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with(std::string(name) + " ")) {
      continue;
    }
    std::string out;
    for (const char c : line) {
      if (c != ' ' || !out.ends_with(' ')) {
        out += c;
      }
    }
    return out;
  }
  return "";
}

}  // namespace

TEST_CASE("texts: every row of the table is in help, manual, completions and explanation") {
  const std::string help = help_text(Personality::torch_distributed_launch, 80);
  const std::string manual = man_page();
  const std::string bash = bash_completion();
  const std::string zsh = zsh_completion();
  const std::string explanation =
      explained({"--explain", "train.py"}, Personality::torch_distributed_launch);
  for (const Option& row : all_options()) {
    INFO(row.name);
    CHECK(has(manual, roff_flag(row)));
    CHECK_FALSE(row.help.empty());
    CHECK_FALSE(row.help.ends_with('.'));
    if (!row.has(kHidden)) {
      CHECK(has(help, long_flag(row)));
    }
    if (!row.has(kHidden) && is_offered(row, Personality::muster)) {
      CHECK(has(bash, long_flag(row)));
      CHECK(has(zsh, "'" + long_flag(row)));
    }
    if (row.kind != ValueKind::action) {
      CHECK_FALSE(line_of(explanation, row.name).empty());
      CHECK(has(manual, muster_variable(row)));
      CHECK(has(manual, pet_variable(row)));
    }
  }
}

TEST_CASE("texts: the table contains all options of torchrun 2.15, including short ones") {
  for (const char* name : {"nnodes",
                           "nproc-per-node",
                           "rdzv-backend",
                           "rdzv-endpoint",
                           "rdzv-id",
                           "rdzv-conf",
                           "standalone",
                           "max-restarts",
                           "monitor-interval",
                           "start-method",
                           "event-log-handler",
                           "role",
                           "module",
                           "no-python",
                           "run-path",
                           "log-dir",
                           "redirects",
                           "tee",
                           "local-ranks-filter",
                           "duplicate-stdout-filters",
                           "duplicate-stderr-filters",
                           "node-rank",
                           "master-addr",
                           "master-port",
                           "local-addr",
                           "logs-specs",
                           "numa-binding",
                           "signals-to-handle",
                           "shutdown-timeout",
                           "virtual-local-rank",
                           "log-line-prefix-template",
                           "print-completion",
                           "help"}) {
    INFO(name);
    const Option* row = find_option(name);
    REQUIRE(row != nullptr);
    CHECK(row->has(kTorchrun));
    const bool without = row->id == OptionId::logs_specs || row->id == OptionId::numa_binding ||
                         row->kind == ValueKind::action;
    CHECK(row->has(kPet) == !without);
  }
  CHECK(find_letter('m')->id == OptionId::module);
  CHECK(find_letter('r')->id == OptionId::redirects);
  CHECK(find_letter('t')->id == OptionId::tee);
  CHECK(find_letter('h')->id == OptionId::help);
}

TEST_CASE("help: at most 80 columns and 120 lines, examples before options") {
  for (const Personality personality :
       {Personality::muster, Personality::torchrun, Personality::torch_distributed_launch}) {
    const std::string help = help_text(personality, 80);
    const auto lines = split(help, '\n');
    CHECK(lines.size() <= 120);
    for (const std::string& line : lines) {
      INFO(line);
      CHECK(line.size() <= 80);
      CHECK_FALSE(line.ends_with(' '));
    }
    CHECK(help.find("train.py --lr=0.1") < help.find("What to run"));
  }
  CHECK(help_text(Personality::torchrun, 80).starts_with("usage: torchrun "));
}

TEST_CASE("help: one group, verbatim") {
  const std::string help = help_text(Personality::muster, 80);
  const auto begin = help.find("Failures, restarts and shutdown");
  CHECK(help.substr(begin, help.find("\n\n", begin) - begin) ==
        "Failures, restarts and shutdown\n"
        "  --max-restarts N            restart all workers after a failure, up to N times\n"
        "  --restart WHAT              rank: replace only failed workers [group]\n"
        "  --vault-memory SIZE         memory for records of replaced workers [64M]\n"
        "  --quick-failures N|off      give up after N startup failures in a row [3]\n"
        "  --shutdown-timeout SECONDS  time from SIGTERM to SIGKILL; 0: kill at once [30]\n"
        "  --signals-to-handle NAMES   signals to forward before muster stops the job\n"
        "                              [SIGTERM,SIGINT,SIGHUP,SIGQUIT]\n"
        "  --signal-delivery HOW       group: workers get signals directly; leader:\n"
        "                              muster forwards them [auto]\n"
        "  --hang-timeout auto|SECONDS|off\n"
        "                              report which rank stalls the job [off]\n"
        "  --on-hang WHAT              report, restart, or stop (exit code 124) [report]\n"
        "  --on-child-death WHAT       fail: a dying child fails its worker [ignore]");
}

TEST_CASE("help: narrow and absurd widths still list all options") {
  for (const int width : {-1, 0, 20, 100000}) {
    CHECK(has(help_text(Personality::muster, width), "--numa-binding"));
  }
}

TEST_CASE("manual: no line starts with a dot or quote except roff commands") {
  for (const std::string& line : split(man_page(), '\n')) {
    INFO(line);
    const bool command = line.starts_with(".TH ") || line.starts_with(".SH ") ||
                         line.starts_with(".SS ") || line.starts_with(".B ") ||
                         line.starts_with(".BR ") || line == ".TP" || line == ".PP" ||
                         line == ".nf" || line == ".fi";
    CHECK((command || !(line.starts_with('.') || line.starts_with('\''))));
  }
}

TEST_CASE("manual: it names the other programs, and all fields at the top of the report") {
  const std::string manual = man_page();
  CHECK(has(manual, ".BR musterctl (1)"));
  CHECK(has(manual, ".BR muster\\-store (1)"));
  for (const char* field : {"outcome",
                            "exit_code",
                            "program",
                            "node",
                            "workers",
                            "attempts",
                            "max_restarts",
                            "verdict",
                            "root_cause",
                            "other_failures",
                            "other_failures_count",
                            "overdue_local_ranks",
                            "not_killed"}) {
    INFO(field);
    CHECK(manual.find(field, manual.find(".SH FAILURE REPORT")) != std::string::npos);
  }
}

TEST_CASE("explain: each setting with its value and its source") {
  const std::string text = explained({"--nproc-per-node=auto",
                                      "-t3",
                                      "--rdzv-conf=a=1,token=secret",
                                      "train.py",
                                      "--name=two words"},
                                     Personality::muster);
  CHECK(line_of(text, "program") == "program train.py '--name=two words' command line");
  CHECK(line_of(text, "python") == "python python3 PATH");
  CHECK(line_of(text, "usable cpus") == "usable cpus 8 8 CPUs by affinity");
  CHECK(line_of(text, "nproc-per-node") ==
        "nproc-per-node 4 (auto: 4 NVIDIA GPUs in /dev) command line");
  CHECK(line_of(text, "tee") == "tee 3 command line");
  CHECK(line_of(text, "max-restarts") == "max-restarts 0 default");
  CHECK(line_of(text, "standalone") == "standalone yes default for one node if no port is set");
  CHECK(line_of(text, "rdzv-conf") == "rdzv-conf a=1,token=*** command line");
  CHECK_FALSE(has(text, "secret"));
}

TEST_CASE("explain: several nodes, with their rendezvous") {
  const std::string text = explained({"--nnodes=2:4",
                                      "--rdzv-backend=c10d",
                                      "--rdzv-endpoint=a,b:7",
                                      "--rdzv-conf=lease=0.5,join_delay=never",
                                      "--iface=eth0",
                                      "--port-range=7-29400",
                                      "train.py"},
                                     Personality::muster);
  CHECK(line_of(text, "nnodes") == "nnodes 2:4 command line");
  CHECK(line_of(text, "rdzv-endpoint") == "rdzv-endpoint a:29400,b:7 command line");
  CHECK(line_of(text, "node-rank") == "node-rank by name default");
  CHECK(line_of(text, "master-addr") ==
        "master-addr the node with rank 0 known after the rendezvous");
  CHECK(line_of(text, "local-addr") == "local-addr 10.0.0.7 the address of --iface=eth0");
  CHECK(line_of(text, "iface") == "iface eth0 command line");
  CHECK(line_of(text, "port-range") == "port-range 7-29400 command line");
  CHECK(line_of(text, "rank-order") == "rank-order none default");
  CHECK(line_of(text, "rendezvous") ==
        "rendezvous join_timeout=600s, last_call_timeout=30s, lease=500ms, "
        "cool_down=1800s, join_delay=never, allow_split_brain=no, any_program=no rdzv-conf and its "
        "defaults");
  CHECK(line_of(explained({"train.py"}, Personality::muster), "rendezvous").empty());
}

TEST_CASE("manual: each key of --rdzv-conf with its default, or the reason why it has no effect") {
  const std::string manual = man_page();
  const auto idle = manual.find("Accepted for torchrun compatibility, without effect");
  REQUIRE(idle != std::string::npos);
  for (const RdzvKey& key : rdzv_keys()) {
    INFO(key.name);
    CHECK_FALSE(key.help.ends_with('.'));
    const bool has_effect = key.in_c10d || key.in_static;
    const std::string value = key.default_value.empty() ? "" : "=" + std::string(key.default_value);
    const std::string heading = "\n.TP\n" + std::string(key.name) + value + "\n";
    CHECK(has(manual, heading) == has_effect);
    CHECK((manual.find(" " + std::string(key.name) + " (", idle) != std::string::npos) !=
          has_effect);
  }
}

TEST_CASE("explain: marks keys of --rdzv-conf that have no effect with the backend") {
  const std::string text = explained({"--nnodes=2",
                                      "--rdzv-backend=c10d",
                                      "--rdzv-endpoint=a",
                                      "--rdzv-conf=close_timeout=5,lease=2,timeout=7",
                                      "train.py"},
                                     Personality::muster);
  CHECK(line_of(text, "rdzv-conf") ==
        "rdzv-conf close_timeout=5,lease=2,timeout=7 (no effect: timeout, close_timeout) command "
        "line");
}

TEST_CASE("explain: shows a setting without an effect in this run as it was given") {
  const std::string text = explained({"--rsh=ssh -p 7",
                                      "--rsh-fanout=9",
                                      "--srun",
                                      "-x",
                                      "SHELL",
                                      "-x",
                                      "API_TOKEN=hidden",
                                      "--start-method=fork",
                                      "--on-hang=stop",
                                      "--max-restarts=2",
                                      "--role=trainer",
                                      "train.py"},
                                     Personality::muster);
  CHECK(line_of(text, "rsh") == "rsh ssh -p 7 command line");
  CHECK(line_of(text, "rsh-fanout") == "rsh-fanout 9 command line");
  CHECK(line_of(text, "srun") == "srun yes command line");
  CHECK(line_of(text, "export") == "export SHELL,API_TOKEN=*** command line");
  CHECK(line_of(text, "start-method") == "start-method fork command line");
  CHECK(line_of(text, "on-hang") == "on-hang stop command line");
  CHECK(line_of(text, "max-restarts") == "max-restarts 2 command line");
  CHECK(line_of(text, "role") == "role trainer command line");
  CHECK(line_of(text, "virtual-local-rank") == "virtual-local-rank no default");
  CHECK(line_of(text, "rsh-muster") == "rsh-muster none default");
}

TEST_CASE("explain: a nonexistent program does not prevent an explanation") {
  const std::string text = explained({"--explain", "none.py"}, Personality::muster);
  CHECK(line_of(text, "program") ==
        "program none.py command line; the script none.py does not exist");
}

TEST_CASE("texts: --explain shows what differs from the default, --explain=all everything") {
  Launch launch{{"--nproc-per-node=2", "--label"}, {}};
  const std::string changed = describe_config(launch.config(), Explained::changed);
  CHECK(line_of(changed, "nproc-per-node") == "nproc-per-node 2 command line");
  CHECK(line_of(changed, "label") == "label yes command line");
  CHECK(line_of(changed, "max-restarts").empty());
  CHECK(line_of(changed, "stdin-rank").empty());
  CHECK(line_of(changed, "state-dir").empty());
  CHECK_FALSE(line_of(changed, "program").empty());
  CHECK(changed.ends_with(" other settings are at the default; --explain=all prints them\n"));
  const std::string all = describe_config(launch.config(), Explained::all);
  CHECK(line_of(all, "max-restarts") == "max-restarts 0 default");
  CHECK_FALSE(line_of(all, "state-dir").empty());
  CHECK_FALSE(all.contains("--explain=all"));
}
