// SPDX-License-Identifier: Apache-2.0
// --hosts and --hostfile: the command line of the agents on other hosts. Settings from all sources
// become options on that command line, so the hosts need no common files or variables.
#include "base/plural.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "config/options/values.hpp"
#include "config/resolve/resolution.hpp"
#include "config/resolve/shell_words.hpp"
#include "machine/own_addresses.hpp"
#include "platform/host_filter.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

namespace muster {
namespace {

using enum OptionId;

// Settings that --hosts determines, or that apply only to a single node.
constexpr auto kDecided = std::to_array<std::pair<OptionId, std::string_view>>({
    {standalone, "starts a single-node job and cannot be combined with --hosts; omit it"},
    {node_rank, "is set by the order of --hosts; omit it"},
    {master_addr, "is chosen by --hosts; use --rdzv-endpoint to set the rendezvous address"},
    {master_port, "is chosen by --hosts; use --rdzv-endpoint to set the rendezvous address"},
    {local_addr, "applies to a single node; with --hosts use --iface=NAME, for all nodes"},
    {srun, "conflicts with --hosts; use only one of them"},
    {as_node, "is not needed: --explain shows all nodes in --hosts"},
});

// Settings that are not forwarded unchanged.
constexpr auto kOwn = std::to_array<OptionId>({hosts,
                                               hostfile,
                                               include,
                                               exclude,
                                               rsh,
                                               rsh_muster,
                                               rsh_fanout,
                                               hosts_timeout,
                                               export_variable,
                                               nnodes,
                                               rdzv_backend,
                                               rdzv_endpoint,
                                               rdzv_id,
                                               rdzv_conf,
                                               token_file,
                                               stdin_rank,
                                               config,
                                               accelerate_config,
                                               platform});

// Variables that training scripts may need and that a remote shell does not set. Variables that
// describe a single host, such as CUDA_VISIBLE_DEVICES, are left out.
constexpr auto kTravelling = std::to_array<std::string_view>(
    {"CONDA_PREFIX", "LD_LIBRARY_PATH", "PATH", "PYTHON_EXEC", "VIRTUAL_ENV"});
constexpr auto kTravellingPrefixes = std::to_array<std::string_view>({"FI_",
                                                                      "GLOO_",
                                                                      "HF_",
                                                                      "MUSTER_",
                                                                      "NCCL_",
                                                                      "OMP_",
                                                                      "PET_",
                                                                      "PYTHON",
                                                                      "PYTORCH_",
                                                                      "TORCH",
                                                                      "UCX_"});

bool is_setting(std::string_view variable) {
  return std::ranges::any_of(all_options(), [&](const Option& row) {
    return variable == muster_variable(row) || variable == pet_variable(row);
  });
}

bool travels(std::string_view variable) {
  const bool named = std::ranges::find(kTravelling, variable) != kTravelling.end() ||
                     std::ranges::any_of(kTravellingPrefixes, [&](std::string_view prefix) {
                       return variable.starts_with(prefix);
                     });
  return named && !is_setting(variable);
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::ranges::all_of(name,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// -x 'WANDB_*'
void export_all(const Resolution& r, std::string_view prefix, HostsRequest& out) {
  for (const auto& [name, value] : r.environ.all()) {
    if (name.starts_with(prefix) && !is_setting(name)) {
      out.environment[name] = value;
    }
  }
}

Result<void> export_one(const Resolution& r, const std::string& text, HostsRequest& out) {
  const auto equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (const std::string prefix = name.substr(0, name.size() - 1);
      text.ends_with('*') && name == text && is_variable_name(prefix)) {
    export_all(r, prefix, out);
    return {};
  }
  const auto value =
      equals == std::string::npos ? r.environ.get(name) : std::optional(text.substr(equals + 1));
  if (!is_variable_name(name)) {
    return failure(Errc::usage, fmt::format("-x {}: not a variable name", shell_quoted(name)));
  }
  if (!value) {
    return failure(Errc::usage, fmt::format("-x {}: is not set here; use -x {}=VALUE", name, name));
  }
  out.environment[name] = *value;
  return {};
}

Result<void> add_environment(const Resolution& r,
                             const std::map<std::string, std::string>& variables,
                             HostsRequest& out) {
  for (const auto& [name, value] : r.environ.all()) {
    if (travels(name)) {
      out.environment[name] = value;
    } else if (is_setting(name)) {
      out.settings.push_back(name);
    }
  }
  for (const auto& [name, value] : variables) {
    out.environment[name] = value;
  }
  for (const std::string& text : split(r.layers.text(export_variable), '\n')) {
    if (text.empty()) {
      continue;
    }
    if (auto done = export_one(r, text, out); !done) {
      return done;
    }
  }
  return {};
}

Result<void> read_hosts(const Resolution& r, HostsRequest& out) {
  if (r.layers.is_given(hosts) && r.layers.is_given(hostfile)) {
    return r.layers.refuse(hostfile, "conflicts with --hosts; use only one of them");
  }
  const OptionId by = r.layers.is_given(hosts) ? hosts : hostfile;
  const std::string& text = r.layers.text(by);
  if (by == hosts) {
    auto parsed = parse_job_hosts(text);
    if (!parsed) {
      return r.layers.refuse(by, parsed.error().message);
    }
    out.hosts = std::move(*parsed);
    return {};
  }
  const auto file = r.machine.read_file(text);
  auto parsed =
      file ? parse_host_file(*file) : Result<std::vector<JobHost>>(std::unexpected(file.error()));
  if (!parsed) {
    return r.layers.refuse(by, parsed.error().message);
  }
  out.hosts = std::move(*parsed);
  return {};
}

Result<void> filter(const Resolution& r, HostsRequest& out) {
  if (r.layers.is_given(include) && r.layers.is_given(exclude)) {
    return r.layers.refuse(exclude, "conflicts with --include; use only one of them");
  }
  for (const auto& [id, how] :
       {std::pair(include, HostFilter::include), std::pair(exclude, HostFilter::exclude)}) {
    if (!r.layers.is_given(id)) {
      continue;
    }
    auto rest = filter_hosts(out.hosts, how, r.layers.text(id));
    if (!rest) {
      return r.layers.refuse(id, rest.error().message);
    }
    out.hosts = std::move(*rest);
  }
  return {};
}

// Without --hosts these options would have no effect, and the job would use hosts or GPUs that the
// user meant to exclude.
Result<void> check_filtered(const Resolution& r) {
  for (const OptionId id : {include, exclude}) {
    if (r.layers.is_given(id)) {
      return r.layers.refuse(id, "filters --hosts or --hostfile, but neither is set");
    }
  }
  return {};
}

Result<void> check_decided(const Resolution& r) {
  if (r.line.personality != Personality::muster) {
    return failure(Errc::usage,
                   "--hosts is not available when invoked as torchrun; run muster instead");
  }
  for (const auto& [id, rule] : kDecided) {
    const bool on = option(id).kind == ValueKind::flag ? r.layers.is_on(id) : r.layers.is_given(id);
    if (on) {
      return r.layers.refuse(id, rule);
    }
  }
  if (r.layers.is_given(rdzv_backend) && r.layers.text(rdzv_backend) != "c10d") {
    return r.layers.refuse(rdzv_backend, "--hosts always uses c10d; omit this option");
  }
  if (r.layers.is_given(stdin_rank) && r.layers.text(stdin_rank) != "none") {
    return r.layers.refuse(stdin_rank, "standard input is not forwarded to the hosts in --hosts");
  }
  return {};
}

// With --nnodes=MIN:MAX the job continues while at least MIN nodes remain.
Result<void> read_nodes(const Resolution& r, HostsRequest& out) {
  const auto count = static_cast<std::int64_t>(out.hosts.size());
  out.nodes_min = static_cast<int>(count);
  if (!r.layers.is_given(nnodes)) {
    return {};
  }
  const auto parts = split(r.layers.text(nnodes), ':');
  const auto min = parse_python_int(parts.front());
  const auto max = parse_python_int(parts.back());
  if (parts.size() > 2 || !min || !max || *min < 1 || *min > *max || *max != count) {
    return r.layers.refuse(
        nnodes,
        fmt::format(
            "--hosts lists {}; omit this option or use MIN:{}", counted(count, "node"), count));
  }
  out.nodes_min = static_cast<int>(*min);
  return {};
}

Result<void> check_slots(const Resolution& r, const HostsRequest& out) {
  const std::string& given = r.layers.text(nproc_per_node);
  const auto chosen = std::ranges::find_if_not(out.hosts, &std::string::empty, &JobHost::devices);
  if (chosen != out.hosts.end() && r.layers.is_given(devices)) {
    return r.layers.refuse(
        devices,
        fmt::format("the GPUs of {} are also set in the host list; set them only once",
                    chosen->name()));
  }
  for (const JobHost& host : out.hosts) {
    if (host.slots && r.layers.is_typed(nproc_per_node) && given != std::to_string(*host.slots)) {
      return r.layers.refuse(
          nproc_per_node,
          fmt::format("{} has {} in the host list; omit this option or the slots",
                      host.name(),
                      counted(*host.slots, "slot")));
    }
  }
  return {};
}

// Marks the local host, which needs neither sshd nor a key. An entry with a user or port is not
// local, because it specifies a different login. Called only for the default ssh command,
// because other remote shells may interpret the name differently.
void mark_local(const Resolution& r, HostsRequest& out) {
  const std::string own = r.machine.hostname();
  const auto addresses = r.machine.own_addresses().value_or(std::vector<OwnAddress>{});
  for (JobHost& host : out.hosts) {
    const std::string& name = host.target;
    host.is_local = name == "localhost" || name == own || name == own.substr(0, own.find('.')) ||
                    std::ranges::find(addresses, name, &OwnAddress::address) != addresses.end();
  }
}

// The default ssh command must not prompt, wait for hours, or survive a network failure. A command
// from the user is not changed, with one exception: no ssh process of the job may become the
// ControlMaster for the user's other connections, because muster kills it at the end of the job.
// ssh uses the first value of an option, so a ControlMaster set by the user takes precedence.
Result<void> read_rsh(const Resolution& r, HostsRequest& out) {
  auto words = shell_words(r.layers.text(rsh));
  if (!words || words->empty()) {
    return r.layers.refuse(rsh, words ? "must be a command" : words.error().message);
  }
  out.rsh = std::move(*words);
  const std::string& shell = out.rsh.front();
  const bool is_ssh = shell.substr(shell.rfind('/') + 1) == "ssh";
  if (std::ranges::any_of(out.hosts, &JobHost::has_port) && !is_ssh) {
    return r.layers.refuse(rsh, "port= in the host file needs ssh");
  }
  if (out.rsh == std::vector<std::string>{"ssh"}) {
    mark_local(r, out);
    out.rsh.insert(out.rsh.end(),
                   {"-T",
                    "-x",
                    "-oBatchMode=yes",
                    "-oConnectTimeout=20",
                    "-oServerAliveInterval=15",
                    "-oServerAliveCountMax=4"});
  }
  if (is_ssh) {
    out.rsh.emplace_back("-oControlMaster=no");
  }
  const std::string& path = r.layers.text(rsh_muster);
  const std::string own = r.machine.own_path();
  out.muster = !path.empty() ? path : own.empty() ? "muster" : own;
  const auto fanout = r.layers.integer(rsh_fanout);
  if (fanout < 1 || fanout > std::numeric_limits<std::int32_t>::max()) {
    return r.layers.refuse(rsh_fanout, "must be at least 1");
  }
  out.fanout = static_cast<int>(fanout);
  const auto timeout = parse_duration(trim(r.layers.text(hosts_timeout)));
  if (!timeout || *timeout < Duration::zero()) {
    return r.layers.refuse(hosts_timeout, "must be a number of seconds; 0 means one attempt");
  }
  out.reach_timeout = *timeout;
  return {};
}

void add_options(const Resolution& r, HostsRequest& out) {
  for (const Option& row : all_options()) {
    const bool passes = row.kind != ValueKind::action && r.layers.is_given(row.id) &&
                        std::ranges::find(kOwn, row.id) == kOwn.end();
    if (!passes) {
      continue;
    }
    if (row.kind != ValueKind::flag) {
      out.options.push_back(long_flag(row) + "=" + r.layers.text(row.id));
    } else if (r.layers.is_on(row.id)) {
      out.options.push_back(long_flag(row));
    }
  }
}

void add_rendezvous(const Resolution& r, HostsRequest& out) {
  out.rdzv_id = r.layers.is_given(rdzv_id) ? r.layers.text(rdzv_id)
                                           : "hosts-" + r.machine.random_hex().substr(0, 12);
  out.rdzv_conf = r.layers.text(rdzv_conf);
  out.rdzv_endpoint = r.layers.text(rdzv_endpoint);
  out.port_range = r.layers.text(port_range);
  out.sends_token = out.hosts.size() > 1 && !r.layers.is_given(token);
  out.token_file = r.layers.text(token_file);
  out.label = r.layers.is_on(label) && !r.layers.is_given(log_line_prefix_template);
  out.grace = parse_duration(trim(r.layers.text(shutdown_timeout))).value_or(Duration::zero());
  out.program = {r.line.program};
  std::ranges::copy(r.line.args, std::back_inserter(out.program));
}

}  // namespace

Result<void> resolve_hosts(const Resolution& r,
                           const std::map<std::string, std::string>& variables) {
  if (!r.layers.is_given(hosts) && !r.layers.is_given(hostfile)) {
    return check_filtered(r);
  }
  HostsRequest out;
  if (auto done = check_decided(r); !done) {
    return done;
  }
  if (auto done = check_token(r); !done) {
    return done;
  }
  for (const auto step : {read_hosts, filter, read_nodes, read_rsh}) {
    if (auto done = step(r, out); !done) {
      return done;
    }
  }
  if (auto done = check_slots(r, out); !done) {
    return done;
  }
  if (auto done = add_environment(r, variables, out); !done) {
    return done;
  }
  add_options(r, out);
  add_rendezvous(r, out);
  r.out.hosts = std::move(out);
  return {};
}

}  // namespace muster
