// SPDX-License-Identifier: Apache-2.0
// Every option and every key of --rdzv-conf changes the configuration, or is documented to have no
// effect. fields_are_read_test.py checks that the launcher reads each field.
#include "config/options/rdzv_conf.hpp"
#include "config/options/settings.hpp"
#include "unit/config/launch.hpp"

using namespace muster;

namespace {

using Args = std::vector<std::string>;

// An option with a non-default value, and a command line on which the value matters.
struct Trial {
  OptionId id;
  Args typed;
  Args others{};
  std::string program = "train.py";
  std::map<std::string, std::string, std::less<>> variables{};
};

const Args kMany{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=head"};
const Args kStatic{"--nnodes=2", "--node-rank=1"};
const Args kExplained{"--explain", "--nnodes=2", "--node-rank=0", "--master-addr=head"};

const std::map<std::string, std::string, std::less<>> kTwoNodes{
    {"MASTER_ADDR", "head"}, {"MASTER_PORT", "7"}, {"WORLD_SIZE", "2"}, {"RANK", "1"}};

// A struct, so that `using enum` does not add the enumerators to the namespace.
struct Trials {
  using enum OptionId;

  std::vector<Trial> all{
      {module, {"-m"}},
      {no_python, {"--no-python"}, {}, "./run.py"},
      {nproc_per_node, {"--nproc-per-node=3"}},
      {role, {"--role=trainer"}},
      {virtual_local_rank, {"--virtual-local-rank"}},
      {devices, {"--devices=1"}},
      {ports, {"--ports=2"}},
      {leader_ports, {"--leader-ports=2"}},
      {env_for, {"--env-for=jax"}},
      {stdin_rank, {"--stdin-rank=0"}},
      {warm, {"--warm"}},
      {local_rank_arg, {"--local-rank-arg"}},
      {max_restarts, {"--max-restarts=2"}},
      {restart, {"--restart=rank"}, {"--max-restarts=2"}},
      {vault_memory, {"--vault-memory=1G"}},
      {spare_workers, {"--spare-workers=1"}, {"--restart=rank", "--max-restarts=2"}},
      {quick_failures, {"--quick-failures=off"}},
      {on_verdict, {"--on-verdict=stop"}},
      {no_restart_on, {"--no-restart-on=3"}},
      {restart_delay, {"--restart-delay=5"}},
      {shutdown_timeout, {"--shutdown-timeout=5"}},
      {signals_to_handle, {"--signals-to-handle=SIGTERM"}},
      {signal_delivery, {"--signal-delivery=group"}},
      {hang_timeout, {"--hang-timeout=60"}},
      {on_hang, {"--on-hang=stop"}, {"--hang-timeout=60"}},
      {on_child_death, {"--on-child-death=fail"}},
      {preempt_signal, {"--preempt-signal=USR1"}},
      {preempt_file, {"--preempt-file=/tmp/stop"}},
      {preempt_url, {"--preempt-url=aws"}},
      {preempt_scope, {"--preempt-scope=node"}},
      {on_preempt, {"--on-preempt=stay"}},
      {check, {"--check"}},
      {log_dir, {"--log-dir=logs"}},
      {redirects, {"--redirects=1"}},
      {tee, {"--tee=2"}},
      {label, {"--label"}},
      {fold, {"--fold=off"}},
      {local_ranks_filter, {"--local-ranks-filter=0"}},
      {console_ranks, {"--console-ranks=0"}},
      {log_line_prefix_template, {"--log-line-prefix-template=x"}},
      {duplicate_stdout_filters, {"--duplicate-stdout-filters=x"}},
      {duplicate_stderr_filters, {"--duplicate-stderr-filters=x"}},
      {standalone, {"--standalone"}, {"--master-port=1"}},
      {nnodes, {"--nnodes=1:2"}, {"--rdzv-backend=c10d", "--rdzv-endpoint=head"}},
      {node_rank, {"--node-rank=1"}, kMany},
      {master_addr, {"--master-addr=head"}, {"--master-port=7"}},
      {master_port, {"--master-port=7"}, {"--nnodes=2", "--node-rank=1", "--master-addr=head"}},
      {local_addr, {"--local-addr=10.0.0.7"}, kMany},
      {iface, {"--iface=eth0"}, kMany},
      {no_socket_ifname, {"--no-socket-ifname"}, kMany},
      {port_range, {"--port-range=29400-29409"}, kMany},
      {store_via, {"--store-via=proxy"}, kMany},
      {rank_order, {"--rank-order=file:order"}, kMany},
      {rdzv_backend, {"--rdzv-backend=c10d"}, {"--rdzv-endpoint=head:7"}},
      {rdzv_endpoint, {"--rdzv-endpoint=other"}, kMany},
      {rdzv_id, {"--rdzv-id=job"}, kMany},
      {rdzv_conf, {"--rdzv-conf=lease=2"}, kMany},
      {token_file, {"--token-file=secret"}, kMany},
      {token, {"--token=none"}, kMany},
      {state_dir, {"--state-dir=/state"}, kMany},
      {node_history, {"--node-history=/shared/nodes"}, kMany},
      {platform, {"--platform=none"}, {}, "train.py", kTwoNodes},
      {as_node, {"--as-node=1"}, kExplained},
      {debug, {"--debug"}},
      {on_event, {"--on-event=true"}},
      {config, {"--config=job.toml"}},
      {accelerate_config, {"--accelerate-config=job.yaml"}},
      {http, {"--http=8080"}},
      {http_key, {"--http-key=none"}, {"--http=8080"}},
      {log_level, {"--log-level=info"}},
      {run_path, {"--run-path"}, {}, "./solver"},
      {numa_binding, {"--numa-binding=node"}},
  };
};

const std::vector<Trial>& trials() {
  static const Trials trials;
  return trials.all;
}

LaunchConfig config_of(Args args, const Trial& trial) {
  Launch launch{std::move(args), trial.variables};
  launch.program = {trial.program};
  launch.machine.kinds["./run.py"] = FileKind::executable;
  launch.machine.numa->cpus = 4;
  launch.machine.texts = {
      {"order", "node1\n"}, {"job.toml", "max-restarts = 3\n"}, {"job.yaml", "num_processes: 3\n"}};
  return launch.config();
}

// Without fields that only contain a setting's source or spelling.
LaunchConfig effect_of(Args args, const Trial& trial) {
  LaunchConfig out = config_of(std::move(args), trial);
  out.origins.clear();
  out.shown.clear();
  out.rdzv_conf.clear();
  out.config_file.clear();
  out.platform = {};
  return out;
}

Args joined(Args first, const Args& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// These options become a HostsRequest and no LaunchConfig.
bool is_for_hosts(OptionId id) {
  return id >= OptionId::hosts && id <= OptionId::export_variable;
}

bool has_documented_no_effect(const Option& row) {
  return row.help.starts_with("no effect") || row.help.starts_with("refused") ||
         row.help.find(" only") != std::string_view::npos;
}

const Trial* trial_of(OptionId id) {
  const auto found = std::ranges::find(trials(), id, &Trial::id);
  return found == trials().end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("effects: each option changes the configuration, or its help says that it does not") {
  for (const Option& row : all_options()) {
    INFO(row.name);
    const Trial* trial = trial_of(row.id);
    if (row.kind == ValueKind::action || row.id == OptionId::use_env || row.id == OptionId::srun ||
        is_for_hosts(row.id)) {
      continue;  // below, and resolve_hosts_test.cpp
    }
    if (trial == nullptr) {
      CHECK(row.group == HelpGroup::compatible);
      CHECK(has_documented_no_effect(row));
      continue;
    }
    CHECK_FALSE(effect_of(joined(trial->others, trial->typed), *trial) ==
                effect_of(trial->others, *trial));
  }
}

TEST_CASE("effects: --explain shows each option that is set, and none only if that was typed") {
  for (const Trial& trial : trials()) {
    const Option& row = option(trial.id);
    INFO(row.name);
    const LaunchConfig out = config_of(joined(trial.others, trial.typed), trial);
    const std::string& shown = out.shown.at(std::string(row.name));
    CHECK(out.origins.at(std::string(row.name)) != "default");
    CHECK((shown == "none") == trial.typed.front().ends_with("=none"));
    if (row.kind == ValueKind::flag) {
      CHECK(shown == "yes");
    }
  }
}

TEST_CASE("effects: each action selects a command other than launching") {
  for (const Option& row : all_options()) {
    if (row.kind != ValueKind::action) {
      continue;
    }
    INFO(row.name);
    const std::string choice(row.choices.substr(0, row.choices.find('|')));
    const std::string typed = long_flag(row) + (choice.empty() ? "" : "=" + choice);
    const auto line = parse_command_line(Personality::muster, {typed, "train.py"});
    REQUIRE(line);
    CHECK(line->command != Command::launch);
  }
}

TEST_CASE("effects: --use-env omits the argument of torch.distributed.launch") {
  Launch launch{{}, {}};
  launch.personality = Personality::torch_distributed_launch;
  CHECK(launch.config().local_rank_arg == "local_rank");
  launch.args = {"--use-env"};
  CHECK(launch.config().local_rank_arg.empty());
}

TEST_CASE("effects: each key of --rdzv-conf changes the rendezvous, or is documented as ignored") {
  const std::map<std::string_view, std::string> values{{"join_timeout", "5"},
                                                       {"timeout", "5"},
                                                       {"last_call_timeout", "5"},
                                                       {"lease", "5"},
                                                       {"keep_alive_interval", "2"},
                                                       {"keep_alive_max_attempt", "7"},
                                                       {"join_delay", "5"},
                                                       {"cool_down", "5"},
                                                       {"is_host", "true"},
                                                       {"allow_split_brain", "true"},
                                                       {"any_program", "true"},
                                                       {"close_timeout", "5"},
                                                       {"read_timeout", "5"},
                                                       {"heartbeat_timeout", "6"},
                                                       {"cas_backoff_max_seconds", "5"},
                                                       {"store_type", "tcp"}};
  for (const RdzvKey& key : rdzv_keys()) {
    for (const std::string backend : {"c10d", "static"}) {
      INFO(key.name << " with " << backend);
      REQUIRE(values.contains(key.name));
      const std::map<std::string, std::string> conf{{std::string(key.name), values.at(key.name)}};
      const bool has_effect = backend == "c10d" ? key.in_c10d : key.in_static;
      const auto plain = read_rendezvous_config({}, backend);
      CHECK((read_rendezvous_config(conf, backend) != plain) == has_effect);
      CHECK(keys_without_effect(conf, backend).empty() == has_effect);
    }
  }
}

TEST_CASE(
    "effects: --srun runs srun with the typed command line in a Slurm job outside of a step") {
  Launch launch{
      {"--srun", "--max-restarts=2"},
      {{"SLURM_JOB_ID", "4"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "a[1-2]"}}};
  launch.program = {"train.py", "--srun"};
  const auto out = launch.resolved();
  REQUIRE(out);
  CHECK(join(out->command, " ") ==
        "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=none --kill-on-bad-exit=0 "
        "/usr/bin/muster --max-restarts=2 train.py --srun");
  launch.args = {"--max-restarts=2"};
  CHECK(launch.error().starts_with(
      "Slurm job 4, not in a step: the job has 2 nodes (SLURM_JOB_NUM_NODES), and only srun "
      "starts a process on each; run: srun --nodes=2 "));
}
