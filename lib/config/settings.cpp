// SPDX-License-Identifier: Apache-2.0
// Data, hence exempt from the usual limit of a file's length.
#include "config/settings.hpp"

#include <algorithm>
#include <array>

namespace muster {
namespace {

constexpr auto kOptions = std::to_array<Option>({
    {.id = OptionId::module,
     .name = "module",
     .letter = 'm',
     .kind = ValueKind::flag,
     .group = HelpGroup::program,
     .help = "PROGRAM is a Python module: python3 -u -m PROGRAM",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::no_python,
     .name = "no-python",
     .kind = ValueKind::flag,
     .group = HelpGroup::program,
     .help = "run PROGRAM as it is, even if it ends in .py",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::nproc_per_node,
     .name = "nproc-per-node",
     .value_name = "N|auto|gpu|cpu",
     .default_value = "1",
     .group = HelpGroup::workers,
     .help = "workers here; auto: one per GPU, else per CPU",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::role,
     .name = "role",
     .value_name = "NAME",
     .default_value = "default",
     .group = HelpGroup::workers,
     .help = "role of the workers, in ROLE_NAME",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::virtual_local_rank,
     .name = "virtual-local-rank",
     .kind = ValueKind::flag,
     .group = HelpGroup::workers,
     .help = "each worker sees one GPU only, and LOCAL_RANK=0",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::stdin_rank,
     .name = "stdin-rank",
     .value_name = "N|none",
     .group = HelpGroup::workers,
     .help = "local rank that reads stdin [0 if it is alone]"},
    {.id = OptionId::warm,
     .name = "warm",
     .value_name = "MODULE,...",
     .default_value = "off",
     .bare_value = "auto",
     .group = HelpGroup::workers,
     .help = "import modules once, fork the workers"},
    {.id = OptionId::local_rank_arg,
     .name = "local-rank-arg",
     .value_name = "NAME",
     .bare_value = "local_rank",
     .group = HelpGroup::workers,
     .help = "pass --NAME=N, the local rank"},
    {.id = OptionId::max_restarts,
     .name = "max-restarts",
     .kind = ValueKind::integer,
     .value_name = "N",
     .default_value = "0",
     .group = HelpGroup::stopping,
     .help = "after a failure start all again, up to N times",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::quick_failures,
     .name = "quick-failures",
     .value_name = "N|off",
     .default_value = "3",
     .group = HelpGroup::stopping,
     .help = "end after N failures at start-up in a row"},
    {.id = OptionId::shutdown_timeout,
     .name = "shutdown-timeout",
     .kind = ValueKind::duration,
     .value_name = "SECONDS",
     .default_value = "30",
     .group = HelpGroup::stopping,
     .help = "from the stop signal to SIGKILL; 0: at once",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::signals_to_handle,
     .name = "signals-to-handle",
     .value_name = "NAMES",
     .default_value = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     .group = HelpGroup::stopping,
     .help = "pass these on to the workers, then end the job",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::signal_delivery,
     .name = "signal-delivery",
     .kind = ValueKind::choice,
     .value_name = "HOW",
     .default_value = "auto",
     .choices = "auto|group|leader",
     .group = HelpGroup::stopping,
     .help = "group: they reach all; leader: pass them on"},
    {.id = OptionId::log_dir,
     .name = "log-dir",
     .value_name = "DIR",
     .group = HelpGroup::output,
     .help = "folder for the logs of this run; /dev/null: none",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::redirects,
     .name = "redirects",
     .letter = 'r',
     .value_name = "SPEC",
     .default_value = "0",
     .group = HelpGroup::output,
     .help = "to files only: 1 stdout, 2 stderr, 3 both, or by local rank such as 0:3,1:2",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::tee,
     .name = "tee",
     .letter = 't',
     .value_name = "SPEC",
     .default_value = "0",
     .group = HelpGroup::output,
     .help = "to files, and with a prefix to the console",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::label,
     .name = "label",
     .letter = 'l',
     .kind = ValueKind::flag,
     .group = HelpGroup::output,
     .help = "prefix each console line with its rank; no files"},
    {.id = OptionId::local_ranks_filter,
     .name = "local-ranks-filter",
     .value_name = "N,N,...",
     .group = HelpGroup::output,
     .help = "only these local ranks appear on the console",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::log_line_prefix_template,
     .name = "log-line-prefix-template",
     .value_name = "TEXT",
     .group = HelpGroup::output,
     .help = "for --tee and --label, of ${role_name} ${local_rank} ${rank} ${hostname}; default: "
             "[${role_name}${local_rank}]:",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::duplicate_stdout_filters,
     .name = "duplicate-stdout-filters",
     .value_name = "TEXT,...",
     .group = HelpGroup::output,
     .help = "copy tee'd lines with one of these texts to filtered_stdout.log",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::duplicate_stderr_filters,
     .name = "duplicate-stderr-filters",
     .value_name = "TEXT,...",
     .group = HelpGroup::output,
     .help = "the same for stderr",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::standalone,
     .name = "standalone",
     .kind = ValueKind::flag,
     .group = HelpGroup::nodes,
     .help = "one machine, any free port: the default where nothing says how machines meet",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::nnodes,
     .name = "nnodes",
     .value_name = "N|MIN:MAX",
     .default_value = "1:1",
     .group = HelpGroup::nodes,
     .help = "machines of the job; with MIN it may start and go on with fewer",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::node_rank,
     .name = "node-rank",
     .kind = ValueKind::integer,
     .value_name = "N",
     .default_value = "0",
     .group = HelpGroup::nodes,
     .help = "its rank; c10d: by default in the order of names",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::master_addr,
     .name = "master-addr",
     .value_name = "ADDRESS",
     .default_value = "127.0.0.1",
     .group = HelpGroup::nodes,
     .help = "MASTER_ADDR (static)",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::master_port,
     .name = "master-port",
     .kind = ValueKind::integer,
     .value_name = "PORT",
     .group = HelpGroup::nodes,
     .help = "MASTER_PORT instead of any free one (static)",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::local_addr,
     .name = "local-addr",
     .value_name = "ADDRESS",
     .group = HelpGroup::nodes,
     .help = "this machine's address, as the others reach it",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::iface,
     .name = "iface",
     .value_name = "NAME",
     .group = HelpGroup::nodes,
     .help = "the same, as the address of this network interface",
     .has_pet = true},
    {.id = OptionId::port_range,
     .name = "port-range",
     .value_name = "A-B",
     .group = HelpGroup::nodes,
     .help = "take ports to listen on from these only",
     .has_pet = true},
    {.id = OptionId::rank_order,
     .name = "rank-order",
     .value_name = "file:PATH",
     .group = HelpGroup::nodes,
     .help = "machines in the order of ranks, one name per line",
     .has_pet = true},
    {.id = OptionId::rdzv_backend,
     .name = "rdzv-backend",
     .value_name = "static|c10d",
     .default_value = "static",
     .group = HelpGroup::nodes,
     .help = "rendezvous backend",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::rdzv_endpoint,
     .name = "rdzv-endpoint",
     .value_name = "HOST[:PORT],...",
     .group = HelpGroup::nodes,
     .help = "rendezvous address; more in case one is lost",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::rdzv_id,
     .name = "rdzv-id",
     .value_name = "ID",
     .default_value = "none",
     .group = HelpGroup::nodes,
     .help = "name of the job",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::rdzv_conf,
     .name = "rdzv-conf",
     .value_name = "KEY=VALUE,...",
     .group = HelpGroup::nodes,
     .help = "such as join_timeout=600,lease=9; see muster(1)",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::platform,
     .name = "platform",
     .value_name = "auto|none|NAME",
     .default_value = "auto",
     .group = HelpGroup::nodes,
     .help = "read this platform's variables"},
    {.id = OptionId::srun,
     .name = "srun",
     .kind = ValueKind::flag,
     .group = HelpGroup::nodes,
     .help = "in a Slurm job outside of srun: start the same by srun",
     .hidden = true},
    {.id = OptionId::explain,
     .name = "explain",
     .kind = ValueKind::action,
     .value_name = "config|plan|env",
     .bare_value = "config",
     .choices = "config|plan|env",
     .group = HelpGroup::looking,
     .help = "print settings and origins, processes, or variables; start nothing"},
    {.id = OptionId::dry_run,
     .name = "dry-run",
     .kind = ValueKind::action,
     .value_name = "WHAT",
     .bare_value = "config",
     .choices = "config|plan|env",
     .group = HelpGroup::looking,
     .help = "the same as --explain"},
    {.id = OptionId::as_node,
     .name = "as-node",
     .kind = ValueKind::integer,
     .value_name = "I",
     .group = HelpGroup::looking,
     .help = "--explain what machine I of the job would do, counted from 0",
     .hidden = true},
    {.id = OptionId::config,
     .name = "config",
     .value_name = "FILE",
     .group = HelpGroup::looking,
     .help = "take options from a TOML file: nproc-per-node = 4"},
    {.id = OptionId::accelerate_config,
     .name = "accelerate-config",
     .value_name = "FILE",
     .group = HelpGroup::looking,
     .help = "the same from a YAML file of 'accelerate config'"},
    {.id = OptionId::log_level,
     .name = "log-level",
     .kind = ValueKind::choice,
     .value_name = "LEVEL",
     .default_value = "warning",
     .choices = "trace|debug|info|warning|error|off",
     .group = HelpGroup::looking,
     .help = "muster's own messages: trace, debug, info, warning, error, off"},
    {.id = OptionId::help,
     .name = "help",
     .letter = 'h',
     .kind = ValueKind::action,
     .group = HelpGroup::looking,
     .help = "print this",
     .in_torchrun = true},
    {.id = OptionId::version,
     .name = "version",
     .kind = ValueKind::action,
     .group = HelpGroup::looking,
     .help = "print the version and what was built in"},
    {.id = OptionId::print_completion,
     .name = "print-completion",
     .kind = ValueKind::action,
     .value_name = "bash|zsh",
     .choices = "bash|zsh",
     .group = HelpGroup::looking,
     .help = "print a completion script",
     .in_torchrun = true},
    {.id = OptionId::print_man,
     .name = "print-man",
     .kind = ValueKind::action,
     .group = HelpGroup::looking,
     .help = "print the manual page",
     .hidden = true},
    {.id = OptionId::use_env,
     .name = "use-env",
     .kind = ValueKind::flag,
     .group = HelpGroup::program,
     .help = "leave out the argument --local_rank=N (as torch.distributed.launch)",
     .in_torchrun = true},
    {.id = OptionId::monitor_interval,
     .name = "monitor-interval",
     .kind = ValueKind::number,
     .value_name = "SECONDS",
     .default_value = "0.1",
     .group = HelpGroup::compatible,
     .help = "no effect: muster waits for events, it never polls",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::start_method,
     .name = "start-method",
     .kind = ValueKind::choice,
     .value_name = "NAME",
     .default_value = "spawn",
     .choices = "spawn|fork|forkserver",
     .group = HelpGroup::compatible,
     .help = "no effect: each worker is a program of its own",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::run_path,
     .name = "run-path",
     .kind = ValueKind::flag,
     .group = HelpGroup::compatible,
     .help = "PROGRAM is a Python script, whatever its name",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::event_log_handler,
     .name = "event-log-handler",
     .value_name = "NAME",
     .default_value = "null",
     .group = HelpGroup::compatible,
     .help = "null only; --log-level=info shows what happens",
     .in_torchrun = true,
     .has_pet = true},
    {.id = OptionId::logs_specs,
     .name = "logs-specs",
     .value_name = "NAME",
     .group = HelpGroup::compatible,
     .help = "default only: Python plug-ins cannot run in here",
     .in_torchrun = true},
    {.id = OptionId::numa_binding,
     .name = "numa-binding",
     .kind = ValueKind::choice,
     .value_name = "POLICY",
     .choices = "node|socket|exclusive|core-complex",
     .group = HelpGroup::compatible,
     .help = "refused, not built yet: use numactl or taskset",
     .in_torchrun = true},
});

// The rows lie in the order of OptionId, so that option(id) is an index.
constexpr bool in_order() {
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    if (static_cast<std::size_t>(kOptions[i].id) != i) {
      return false;
    }
  }
  return true;
}

static_assert(in_order());
static_assert(kOptions.size() == static_cast<std::size_t>(OptionId::numa_binding) + 1);

std::string variable(std::string_view prefix, std::string_view name) {
  std::string out(prefix);
  for (const char c : name) {
    out += c == '-' ? '_' : static_cast<char>(c - ('a' <= c && c <= 'z' ? 'a' - 'A' : 0));
  }
  return out;
}

}  // namespace

std::span<const Option> all_options() {
  return kOptions;
}

const Option& option(OptionId id) {
  return kOptions[static_cast<std::size_t>(id)];
}

const Option* find_option(std::string_view name) {
  const auto same = [](char typed, char own) {
    return typed == own || (typed == '_' && own == '-');
  };
  const auto found = std::ranges::find_if(
      kOptions, [&](const Option& row) { return std::ranges::equal(name, row.name, same); });
  return found == kOptions.end() ? nullptr : &*found;
}

const Option* find_letter(char letter) {
  const auto found = std::ranges::find_if(
      kOptions, [&](const Option& row) { return row.letter == letter && letter != 0; });
  return found == kOptions.end() ? nullptr : &*found;
}

bool is_offered(const Option& row, Personality personality) {
  return row.id != OptionId::use_env || personality == Personality::torch_distributed_launch;
}

std::string muster_variable(const Option& row) {
  return row.kind == ValueKind::action ? "" : variable("MUSTER_", row.name);
}

std::string pet_variable(const Option& row) {
  return row.has_pet ? variable("PET_", row.name) : "";
}

std::string long_flag(const Option& row) {
  return "--" + std::string(row.name);
}

std::string_view heading(HelpGroup group) {
  switch (group) {
    case HelpGroup::program:
      return "What to run";
    case HelpGroup::workers:
      return "How many workers, and what they see";
    case HelpGroup::stopping:
      return "Failing, restarting, stopping";
    case HelpGroup::output:
      return "Output of the workers";
    case HelpGroup::nodes:
      return "Machines and addresses";
    case HelpGroup::looking:
      return "Inspection and configuration";
    case HelpGroup::compatible:
      return "Accepted for compatibility with torchrun";
  }
  return "";
}

}  // namespace muster
