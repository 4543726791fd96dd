// SPDX-License-Identifier: Apache-2.0
#include "config/resolve/resolve.hpp"

#include "unit/config/launch.hpp"

#include <csignal>

using namespace muster;

TEST_CASE("resolve: command line, then MUSTER_, then PET_, then the file, then the default") {
  Launch launch{{"--config=job.toml"}, {}};
  launch.machine.texts["job.toml"] = "max-restarts = 1\n";
  const auto check = [&](int restarts, const std::string& origin) {
    const LaunchConfig out = launch.config();
    CHECK(out.max_restarts == restarts);
    CHECK(out.origins.at("max-restarts") == origin);
  };
  check(1, "config file job.toml");
  launch.variables["PET_MAX_RESTARTS"] = "2";
  check(2, "PET_MAX_RESTARTS");
  launch.variables["MUSTER_MAX_RESTARTS"] = "3";
  check(3, "MUSTER_MAX_RESTARTS");
  launch.args.emplace_back("--max-restarts=4");
  check(4, "command line");
  CHECK(config({}).max_restarts == 0);
  CHECK(config({}).origins.at("max-restarts") == "default");
}

TEST_CASE("resolve: each option that has a PET_ variable is read from it") {
  const std::map<std::string, std::string> values{{"module", "0"},
                                                  {"no-python", "0"},
                                                  {"nproc-per-node", "3"},
                                                  {"role", "r"},
                                                  {"standalone", "1"},
                                                  {"virtual-local-rank", "1"},
                                                  {"max-restarts", "2"},
                                                  {"nnodes", "1"},
                                                  {"shutdown-timeout", "5"},
                                                  {"log-dir", "logs"},
                                                  {"redirects", "1"},
                                                  {"tee", "2"},
                                                  {"node-rank", "0"},
                                                  {"master-port", "1"},
                                                  {"local-ranks-filter", "0"},
                                                  {"rdzv-backend", "c10d"},
                                                  {"rdzv-conf", "a=b"},
                                                  {"signals-to-handle", "SIGTERM"},
                                                  {"start-method", "fork"},
                                                  {"run-path", "0"},
                                                  {"monitor-interval", "5"},
                                                  {"rdzv-id", "j"},
                                                  {"master-addr", "a"},
                                                  {"event-log-handler", "null"},
                                                  {"local-addr", "a"},
                                                  {"iface", "eth0"},
                                                  {"port-range", "7-9"},
                                                  {"rank-order", "file:order"},
                                                  {"rdzv-endpoint", "a:1"}};
  for (const Option& row : all_options()) {
    if (!row.has(kPet)) {
      continue;
    }
    const auto found = values.find(std::string(row.name));
    const std::string value = found == values.end() ? "text" : found->second;
    INFO(pet_variable(row));
    Launch launch{{}, {{pet_variable(row), value}}};
    launch.machine.texts["order"] = "node1\n";
    const std::string origin = launch.config().origins.at(std::string(row.name));
    // Implied settings name what they replace.
    CHECK((origin == pet_variable(row) || origin.find("in place of") != std::string::npos ||
           origin.starts_with("implied")));
  }
}

TEST_CASE("resolve: PET_ flags are bool(int(value)), and typed flags are always on") {
  CHECK(Launch{{}, {{"PET_VIRTUAL_LOCAL_RANK", "2"}}}.config().virtual_local_rank);
  CHECK_FALSE(Launch{{}, {{"PET_VIRTUAL_LOCAL_RANK", "0"}}}.config().virtual_local_rank);
  CHECK(Launch{{"--virtual-local-rank"}, {{"PET_VIRTUAL_LOCAL_RANK", "0"}}}
            .config()
            .virtual_local_rank);
  CHECK(Launch{{}, {{"PET_STANDALONE", "true"}}}.error().find("must be 0 or 1") !=
        std::string::npos);
  CHECK(Launch{{}, {{"MUSTER_VIRTUAL_LOCAL_RANK", "yes"}}}.config().virtual_local_rank);
}

TEST_CASE("resolve: PET_ values are converted but not checked against the choices") {
  CHECK(Launch{{}, {{"PET_MAX_RESTARTS", "x"}}}.error() ==
        "--max-restarts=x (from PET_MAX_RESTARTS): must be a whole number");
  CHECK(Launch{{}, {{"PET_START_METHOD", "zz"}}}.config().shown.at("start-method") == "zz");
  CHECK(error({"--start-method=zz"}) ==
        "--start-method=zz: must be one of spawn, fork, forkserver");
}

TEST_CASE("resolve: an empty variable counts as unset, for every kind of option") {
  const LaunchConfig plain = config({});
  for (const Option& row : all_options()) {
    for (const std::string& variable : {pet_variable(row), muster_variable(row)}) {
      INFO(variable);
      CHECK(Launch{{}, {{variable, ""}}}.config() == plain);
    }
  }
  CHECK(Launch{{}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", ""}}}.config() == plain);
}

TEST_CASE("resolve: no PET_ variable where torchrun has none") {
  CHECK(Launch{{}, {{"PET_LOGS_SPECS", "x"}, {"PET_NUMA_BINDING", "node"}}}.resolved());
}

TEST_CASE("resolve: the config file accepts options of every kind in both spellings") {
  Launch launch{{"--config", "job.toml"}, {}};
  launch.machine.texts["job.toml"] =
      "# a job\n"
      "nproc_per_node = 3\n"
      "role = \"trainer\"\n"
      "virtual-local-rank = true\n"
      "local-ranks-filter = [0, 2]\n"
      "rdzv-conf = \"a=1,b=2\"\n"
      "shutdown-timeout = 1.5\n";
  const LaunchConfig out = launch.config();
  CHECK(out.nproc == 3);
  CHECK(out.role == "trainer");
  CHECK(out.virtual_local_rank);
  CHECK(out.local_ranks_filter == std::set<int>{0, 2});
  CHECK(out.rdzv_conf == std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}});
  CHECK(out.shutdown_timeout == std::chrono::milliseconds(1500));
  CHECK(out.config_file == "job.toml");
}

TEST_CASE("resolve: an error names a config file that is unreadable or has an invalid value") {
  Launch launch{{"--config=job.toml"}, {}};
  CHECK(launch.error() == "--config: job.toml: No such file or directory");
  launch.machine.texts["job.toml"] = "nproc-per-nod = 3\n";
  CHECK(launch.error() ==
        "config file job.toml, line 1: 'nproc-per-nod' is not an option that can be set here; did "
        "you "
        "mean nproc-per-node?");
  launch.machine.texts["job.toml"] = "tee = 9\n";
  CHECK(launch.error().starts_with("--tee=9 (from config file job.toml): must be"));
}

TEST_CASE("resolve: the administrator's file has the lowest precedence") {
  const std::string path = "/etc/muster/config.toml";
  Launch launch{{}, {}};
  launch.machine.texts[path] = "role = \"site\"\nmax-restarts = 7\n";
  launch.machine.kinds[path] = FileKind::plain;
  CHECK(launch.config().role == "site");
  CHECK(launch.config().origins.at("role") == "config file " + path);
  CHECK(launch.config().config_file.empty());
  launch.args = {"--config=job.toml"};
  launch.machine.texts["job.toml"] = "role = \"job\"\n";
  CHECK(launch.config().role == "job");
  CHECK(launch.config().max_restarts == 7);
  launch.args = {"--max-restarts=3"};
  CHECK(launch.config().max_restarts == 3);
  launch.machine.texts[path] = "rool = 1\n";
  CHECK(launch.error().starts_with("config file " + path));
}

TEST_CASE("resolve: nproc-per-node as Python's int, and what is counted by name") {
  CHECK(config({}).nproc == 1);
  CHECK(config({"--nproc-per-node= 4"}).nproc == 4);
  CHECK(config({"--nproc-per-node=+4"}).nproc == 4);
  CHECK(config({"--nproc-per-node=1_0"}).nproc == 10);
  CHECK(config({"--nproc-per-node=cpu"}).nproc == 8);
  CHECK(config({"--nproc-per-node=gpu"}).nproc == 4);
  const LaunchConfig counted = config({"--nproc-per-node=auto"});
  CHECK(counted.nproc == 4);
  CHECK(counted.shown.at("nproc-per-node") == "4 (auto: 4 NVIDIA GPUs in /dev)");
}

TEST_CASE("resolve: auto without a GPU means one worker per usable CPU") {
  Launch launch{{"--nproc-per-node=auto"}, {}};
  launch.machine.gpus = {0, "none seen"};
  CHECK(launch.config().nproc == 8);
  CHECK(launch.config().shown.at("nproc-per-node") == "8 (auto: 8 CPUs by affinity; none seen)");
  launch.args = {"--nproc-per-node=gpu"};
  CHECK(launch.error() == "--nproc-per-node=gpu: no usable GPU: none seen");
}

TEST_CASE("resolve: impossible worker counts") {
  for (const char* bad : {"0", "-1", "99999999"}) {
    INFO(bad);
    CHECK(error({std::string("--nproc-per-node=") + bad}).find("must be from 1 to") !=
          std::string::npos);
  }
  CHECK(error({"--nproc-per-node=lots"}) ==
        "--nproc-per-node=lots: must be a number, auto, gpu or cpu");
  CHECK(error({"--nproc-per-node=xpu"}).find("specify the number of workers") != std::string::npos);
}

TEST_CASE("resolve: does not count devices if nothing depends on them") {
  Launch launch{{"--nproc-per-node=4"}, {{"OMP_NUM_THREADS", "2"}}};
  CHECK(launch.config().usable_cpus == 0);
  CHECK(launch.resolved());
  CHECK(launch.machine.questions == 0);
  launch.variables.erase("OMP_NUM_THREADS");
  CHECK(launch.config().usable_cpus == 8);
}

TEST_CASE("resolve: --hang-timeout, --on-hang and --on-child-death") {
  CHECK_FALSE(config({}).watch_hangs);
  CHECK_FALSE(config({"--hang-timeout=off"}).watch_hangs);
  CHECK(config({"--hang-timeout=auto"}).watch_hangs);
  CHECK_FALSE(config({"--hang-timeout=auto"}).hang_timeout);
  CHECK(config({"--hang-timeout=5m"}).hang_timeout == std::chrono::minutes(5));
  CHECK(config({"--hang-timeout=5m"}).on_hang == OnHang::report);
  CHECK(config({"--on-hang=restart"}).on_hang == OnHang::restart);
  CHECK(config({}).on_child_death == OnChildDeath::ignore);
  CHECK(config({"--on-child-death=fail"}).on_child_death == OnChildDeath::fail);
  for (const char* bad : {"--hang-timeout=0", "--hang-timeout=0.5", "--hang-timeout=never"}) {
    CHECK(error({bad}).find("must be at least 1 second, auto or off") != std::string::npos);
  }
}

TEST_CASE("resolve: --restart=rank needs restarts") {
  CHECK_FALSE(config({}).restart_by_rank);
  CHECK(config({"--restart=rank", "--max-restarts=1"}).restart_by_rank);
  CHECK(error({"--restart=rank"}).contains("needs --max-restarts=N"));
  CHECK(config({"--restart=rank",
                "--max-restarts=1",
                "--nnodes=2",
                "--rdzv-backend=c10d",
                "--rdzv-endpoint=head"})
            .restart_by_rank);
}

TEST_CASE("resolve: --vault-memory") {
  CHECK(config({}).vault_memory == 64U << 20);
  CHECK(config({"--vault-memory=1024k"}).vault_memory == 1U << 20);
  for (const char* bad : {"1048575", "-1M", "M", "all", "", "1T"}) {
    CHECK(error({std::string("--vault-memory=") + bad}).contains("must be at least 1M"));
  }
}

TEST_CASE("resolve: restarts and the grace period") {
  CHECK(config({"--max-restarts=3"}).max_restarts == 3);
  CHECK(config({}).quick_failures == 3);
  CHECK(config({"--quick-failures=1"}).quick_failures == 1);
  CHECK(config({"--quick-failures=off"}).quick_failures == 0);
  for (const char* bad : {"--quick-failures=0", "--quick-failures=-1", "--quick-failures=many"}) {
    CHECK(error({bad}).find("must be at least 1, or off") != std::string::npos);
  }
  CHECK(error({"--max-restarts=-1"}) == "--max-restarts=-1: must be at least 0");
  CHECK(config({}).restart_delay == std::nullopt);
  CHECK(config({}).restart_delay_longest == std::chrono::seconds(60));
  CHECK(config({"--nnodes=2", "--rdzv-endpoint=a:1", "--rdzv-conf=join_timeout=30"})
            .restart_delay_longest == std::chrono::seconds(15));  // the other nodes wait
  CHECK(config({"--restart-delay=auto"}).restart_delay == std::nullopt);
  CHECK(config({"--restart-delay=0"}).restart_delay == Duration::zero());
  CHECK(config({"--restart-delay=1m"}).restart_delay == std::chrono::minutes(1));
  CHECK(error({"--restart-delay=1h"}) == "--restart-delay=1h: must be less than 3600s");
  CHECK(error({"--restart-delay=60",
               "--nnodes=2",
               "--rdzv-backend=c10d",
               "--rdzv-endpoint=a",
               "--rdzv-conf=join_timeout=60"}) ==
        "--restart-delay=60: must be less than 60s, the join_timeout of --rdzv-conf");
  CHECK(config({"--restart=rank", "--max-restarts=1", "--spare-workers=2"}).spare_workers == 2);
  CHECK(error({"--spare-workers=1"}) ==
        "--spare-workers=1: needs --restart=rank: a restart of all workers uses no spare workers");
  CHECK(error({"--spare-workers=65"}) == "--spare-workers=65: must be from 0 to 64");
  CHECK(error({"--restart=rank", "--max-restarts=1", "--spare-workers=1", "--virtual-local-rank"})
            .find("a spare worker has no GPU") != std::string::npos);
  CHECK(config({}).shutdown_timeout == std::chrono::seconds(30));
  CHECK(config({"--shutdown-timeout=0"}).shutdown_timeout == Duration{0});
  CHECK(config({"--shutdown-timeout=1m30s"}).shutdown_timeout == std::chrono::seconds(90));
  CHECK(error({"--shutdown-timeout=-1"}).find("at least 0") != std::string::npos);
  const std::string variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  const LaunchConfig inherited = Launch{{}, {{variable, "7"}}}.config();
  CHECK(inherited.shutdown_timeout == std::chrono::seconds(7));
  CHECK(inherited.origins.at("shutdown-timeout") == variable);
  CHECK(Launch{{"--shutdown-timeout=2"}, {{variable, "x"}}}.config().shutdown_timeout ==
        std::chrono::seconds(2));
  CHECK(Launch{{}, {{variable, "x"}}}.error().starts_with(variable));
}

TEST_CASE("resolve: signals by name; unknown ones are ignored aloud, SIGKILL is refused") {
  CHECK(config({}).signals_to_handle == std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  const Launch launch{{"--signals-to-handle= SIGUSR1 ,SIGNONE,SIGTERM,SIGTERM"}, {}};
  CHECK(launch.config().signals_to_handle == std::vector<int>{SIGUSR1, SIGTERM});
  CHECK(launch.config().signals_to_handle_text == " SIGUSR1 ,SIGNONE,SIGTERM,SIGTERM");
  CHECK(launch.warnings().size() == 1);
  CHECK(error({"--signals-to-handle=SIGKILL"}).find("cannot be caught") != std::string::npos);
}

TEST_CASE("resolve: --preempt-signal, --preempt-file, --preempt-url and --on-preempt") {
  CHECK_FALSE(config({}).preempt_signal);
  CHECK(config({}).preempt_file.empty());
  CHECK(config({}).on_preempt == OnPreempt::exit);
  CHECK(config({"--preempt-signal=usr1"}).preempt_signal == SIGUSR1);
  CHECK(config({"--preempt-signal=SIGUSR2"}).preempt_signal == SIGUSR2);
  for (const std::string name :
       {"KILL", "STOP", "CHLD", "CONT", "TERM", "INT", "HUP", "QUIT", "NONE"}) {
    CHECK(error({"--preempt-signal=" + name}).find("that muster does not use") !=
          std::string::npos);
  }
  CHECK(config({"--preempt-file=/tmp/stop"}).preempt_file == "/tmp/stop");
  CHECK(config({"--preempt-url=gcp"}).preempt_url == "gcp");
  CHECK(config({"--preempt-url=https://a/b"}).preempt_url == "https://a/b");
  for (const std::string url : {"ftp://a", "http://a b", "http://a\nb", "spot"}) {
    CHECK(error({"--preempt-url=" + url}).ends_with("must be aws, azure, gcp, or a URL with http"));
  }
  CHECK(config({"--on-preempt=stay"}).on_preempt == OnPreempt::stay);
  CHECK(config({"--on-preempt=requeue"}).on_preempt == OnPreempt::requeue);
}

TEST_CASE("resolve: a check of the nodes") {
  CHECK(config({}).check == NodeCheck::off);
  CHECK(config({"--check"}).check == NodeCheck::report);
  CHECK(config({"--check=report"}).check == NodeCheck::report);
  CHECK(config({"--check=require"}).check == NodeCheck::require);
  CHECK(error({"--check=maybe"}).find("must be one of off, report, require") != std::string::npos);
}

TEST_CASE("resolve: standard input goes to the only worker, or to the selected one") {
  Launch launch{{}, {}};
  CHECK(launch.config().stdin_rank == 0);
  CHECK_FALSE(launch.config().stdin_rank_chosen);
  launch.args = {"--nproc-per-node=2"};
  CHECK_FALSE(launch.config().stdin_rank);
  launch.machine.terminal = true;
  CHECK(launch.config().stdin_rank == 0);
  CHECK_FALSE(launch.config().stdin_rank_chosen);
  launch.args = {"--nproc-per-node=2", "--stdin-rank=1"};
  CHECK(launch.config().stdin_rank == 1);
  launch.args = {"--stdin-rank=none"};
  CHECK_FALSE(launch.config().stdin_rank);
  CHECK(launch.config().stdin_rank_chosen);
  launch.args = {"--nproc-per-node=2", "--stdin-rank=2"};
  CHECK(launch.error() == "--stdin-rank=2: must be none or a local rank from 0 to 1");
}

TEST_CASE("resolve: torchrun's options without a meaning here are taken when harmless") {
  CHECK(config({"--start-method=forkserver",
                "--event-log-handler=null",
                "--logs-specs=default",
                "--monitor-interval=5"})
            .shown.at("monitor-interval") == "5");
  CHECK(error({"--event-log-handler=console"}).find("use --on-event=COMMAND") != std::string::npos);
  CHECK(error({"--logs-specs=mine"}).find("use --log-dir") != std::string::npos);
  for (const char* bad : {"0", "-1", "0.0"}) {
    CHECK(error({std::string("--monitor-interval=") + bad}).find("greater than 0") !=
          std::string::npos);
  }
  CHECK(error({"--monitor-interval=x"}).find("must be a number") != std::string::npos);
}

TEST_CASE("resolve: LOGLEVEL is the weakest source of the log level") {
  CHECK(config({}).log_level == LogLevel::warning);
  CHECK(Launch{{}, {{"LOGLEVEL", "INFO"}}}.config().log_level == LogLevel::info);
  CHECK(Launch{{"--log-level=error"}, {{"LOGLEVEL", "INFO"}}}.config().log_level ==
        LogLevel::error);
  CHECK(Launch{{}, {{"LOGLEVEL", "LOUD"}}}.warnings().size() == 1);
  CHECK(error({"--log-level=loud"}).find("must be one of trace, debug") != std::string::npos);
}

TEST_CASE("resolve: recognizes a module name without -m") {
  Launch launch{{}, {}};
  launch.program = {"my_pkg.train"};
  CHECK(launch.error(Errc::not_found) ==
        "the program my_pkg.train is neither in PATH nor in this directory; did you mean -m "
        "my_pkg.train?");
  launch.program = {"train"};
  CHECK(launch.error(Errc::not_found).ends_with("; did you mean -m train?"));
  launch.program = {"no_such"};
  CHECK(launch.error(Errc::not_found).ends_with("in this directory"));
}

TEST_CASE("resolve: a warning names a launcher option after the program") {
  Launch launch{{}, {}};
  launch.program = {"train.py", "--lr=0.1", "--nproc_per_node=2"};
  CHECK(launch.warnings() ==
        std::vector<std::string>{
            "--nproc_per_node=2 follows train.py and is passed to the program; to set it for "
            "muster, put it before the program"});
  launch.program = {"train.py", "--role=x", "nnodes"};
  CHECK(launch.warnings().empty());
  launch.program = {"./solver", "--nnodes=2"};  // may itself be a launcher
  CHECK(launch.warnings().empty());
}
