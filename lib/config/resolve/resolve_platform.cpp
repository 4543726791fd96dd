// SPDX-License-Identifier: Apache-2.0
// Turns values from the platform into settings. The command line, variables and files have higher
// precedence. If the platform started muster on several nodes but the settings request one node,
// the launch is rejected: each node would run a separate single-node job and succeed.
#include "base/plural.hpp"
#include "base/text.hpp"
#include "config/options/values.hpp"
#include "config/resolve/resolution.hpp"
#include "platform/job_ports.hpp"
#include "platform/platforms.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace muster {
namespace {

constexpr std::int64_t kLaunchersMax = 100'000;

struct Step {
  const CommandLine& line;
  const Environ& environ;
  const Machine& machine;
  Layers& layers;
  Resolved& out;

  [[nodiscard]] PlatformPlan& plan() const { return out.config.platform; }
};

PlatformFacts facts_of(const Environ& environ, const Machine& machine) {
  PlatformFacts facts;
  facts.environ = environ;
  facts.hostname = machine.hostname();
  facts.addresses = [&machine] {
    std::vector<std::string> out;
    for (const OwnAddress& own : machine.own_addresses().value_or(std::vector<OwnAddress>{})) {
      out.push_back(own.address);
    }
    return out;
  };
  facts.read_file = [&machine](const std::string& path) { return machine.read_file(path); };
  return facts;
}

// A pod's environment contains its index, but only the user knows the number of pods.
void learn_nodes(const Step& s, PlatformPlan& plan);

Result<void> find_plan(const Step& s) {
  PlatformFacts facts = facts_of(s.environ, s.machine);
  facts.only_marked =
      s.line.personality != Personality::muster && !s.layers.is_given(OptionId::platform);
  auto plan = detect(facts, s.layers.text(OptionId::platform));
  MUSTER_RETURN_IF_ERROR(plan);
  learn_nodes(s, *plan);
  if (s.layers.is_given(OptionId::as_node)) {
    if (s.line.command == Command::launch) {
      return s.layers.refuse(
          OptionId::as_node,
          "is valid only with --explain; otherwise muster always runs as the current node");
    }
    if (plan->nodes) {
      plan =
          muster::as_node(std::move(*plan), static_cast<int>(s.layers.integer(OptionId::as_node)));
    }
    MUSTER_RETURN_IF_ERROR(plan);
    s.layers.replace(OptionId::node_rank, s.layers.text(OptionId::as_node), "--as-node");
  }
  s.plan() = std::move(*plan);
  std::ranges::copy(s.plan().warnings, std::back_inserter(s.out.warnings));
  return {};
}

// MIN and MAX from --nnodes. None if the option is not set or invalid; errors are reported
// elsewhere.
std::optional<std::pair<std::int64_t, std::int64_t>> nodes_given(const Step& s) {
  if (s.layers.is_on(OptionId::standalone)) {
    return std::pair<std::int64_t, std::int64_t>(1, 1);
  }
  const auto parts = split(s.layers.text(OptionId::nnodes), ':');
  const auto min = parse_python_int(parts.front());
  const auto max = parse_python_int(parts.back());
  return s.layers.is_given(OptionId::nnodes) && min && max ? std::optional(std::pair(*min, *max))
                                                           : std::nullopt;
}

void learn_nodes(const Step& s, PlatformPlan& plan) {
  const auto given = nodes_given(s);
  if (plan.nodes || !plan.node) {
    return;
  }
  if (given && given->second > 1) {
    plan.nodes = {static_cast<int>(std::min<std::int64_t>(given->second, kLaunchersMax)),
                  s.layers.of(OptionId::nnodes).origin};
    if (plan.hosts) {
      plan.problem.clear();  // the only problem was the missing number of nodes
    }
  } else if (!given && !plan.nodes_unknown.empty()) {
    plan.warnings.push_back(plan.what + ": " + plan.nodes_unknown);
  }
}

std::vector<std::string> started_by(const Step& s) {
  std::vector<std::string> words = s.plan().starter;
  words.push_back(s.machine.own_path().empty() ? "muster" : s.machine.own_path());
  std::ranges::copy_if(
      s.line.typed, std::back_inserter(words), [&, before = true](const std::string& word) mutable {
        before = before && word != s.line.program;
        return !(before && word == "--srun");
      });
  return words;
}

std::string command_text(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  std::ranges::transform(words, std::back_inserter(quoted), shell_quoted);
  return join(quoted, " ");
}

bool says_where(const Step& s) {
  return s.layers.is_given(OptionId::rdzv_endpoint) || s.layers.is_given(OptionId::master_addr);
}

// The allocation has more nodes, but only this process was started. The user must choose between
// --srun and a single node.
Result<void> check_alone(const Step& s) {
  const PlatformPlan& plan = s.plan();
  const auto given = nodes_given(s);
  const bool asks_for_one = given && given->second == 1;
  const bool knows = asks_for_one || (plan.nodes && given);
  if (plan.starter.empty()) {
    return {};
  }
  if (knows) {
    s.plan().problem.clear();
  }
  if (plan.problem.empty()) {
    return {};
  }
  if (s.line.command != Command::launch) {
    s.out.warnings.push_back("cannot be started: " + plan.problem);
    return {};
  }
  return failure(Errc::usage,
                 fmt::format("{}: {}; run: {}   (or pass --nnodes=1 to use only this machine)",
                             plan.what,
                             plan.problem,
                             command_text(started_by(s))));
}

// Rejects a single-node request if the platform has started muster on several nodes.
Result<void> check_world_of_one(const Step& s) {
  PlatformPlan& plan = s.plan();
  const auto given = nodes_given(s);
  if (!given || given->second != 1 || !plan.nodes || plan.nodes->value == 1 ||
      !plan.starter.empty()) {
    return {};
  }
  const OptionId by =
      s.layers.is_on(OptionId::standalone) ? OptionId::standalone : OptionId::nnodes;
  if (plan.is_hint) {
    s.out.warnings.push_back(fmt::format("{} requests one node; ignoring {} ({} nodes)",
                                         long_flag(option(by)),
                                         plan.what,
                                         plan.nodes->value));
    plan = plan_of("none", "ignored because one node was requested");
    return {};
  }
  return s.layers.refuse(
      by,
      fmt::format(
          "{} started muster {} times ({}), and each would run a separate job; omit this option "
          "to run one job, or set --platform=none for separate jobs",
          plan.what,
          plan.nodes->value,
          plan.nodes->origin));
}

// With one launcher per worker, the numbers of nodes and workers are fixed.
Result<void> check_tasks(const Step& s) {
  const PlatformPlan& plan = s.plan();
  if (!plan.task) {
    return {};
  }
  const auto workers = parse_python_int(s.layers.text(OptionId::nproc_per_node));
  const int launchers = plan.nodes->value;
  if (s.layers.is_given(OptionId::nproc_per_node) && workers != 1) {
    return s.layers.refuse(
        OptionId::nproc_per_node,
        fmt::format(
            "{} has already started one launcher per worker ({} here, {} in total); start one "
            "per node (srun --ntasks-per-node=1, mpirun -N 1), or omit this option",
            plan.what,
            plan.task->local_size.value_or(1),
            launchers));
  }
  const auto given = nodes_given(s);
  if (given && (given->first > launchers || given->second < launchers)) {
    return s.layers.refuse(
        OptionId::nnodes,
        fmt::format("{} started {} launchers, one per worker ({}); start one per node (srun "
                    "--ntasks-per-node=1, mpirun -N 1), or omit this option",
                    plan.what,
                    launchers,
                    plan.nodes->origin));
  }
  return {};
}

// A problem with the platform is irrelevant if the user configures the rendezvous or requests one
// node.
Result<void> check_problem(const Step& s) {
  PlatformPlan& plan = s.plan();
  const auto given = nodes_given(s);
  const bool alone = !plan.nodes && given && given->second == 1;
  // No source requested a multi-node job.
  const bool unasked = !plan.nodes && !plan.nodes_unknown.empty();
  if (says_where(s) || alone || unasked) {
    plan.problem.clear();
  }
  if (plan.problem.empty() || !plan.starter.empty()) {
    return {};
  }
  if (s.line.command != Command::launch) {
    s.out.warnings.push_back("cannot be started: " + plan.problem);
    return {};
  }
  return failure(Errc::usage, fmt::format("{}: {}", plan.what, plan.problem));
}

std::string told(const Step& s, OptionId id, const Said<int>& said) {
  const Setting& setting = s.layers.of(id);
  return fmt::format("{}={} ({}) overrides {} ({})",
                     long_flag(option(id)),
                     setting.text,
                     setting.origin,
                     said.value,
                     said.origin);
}

bool differs(const Step& s, OptionId id, const std::optional<Said<int>>& said) {
  const auto given = parse_python_int(s.layers.text(id));
  return s.layers.is_given(id) && said && given && *given != said->value;
}

// Prints one warning for all platform values that sources with higher precedence override.
void warn_of_conflicts(const Step& s) {
  const PlatformPlan& plan = s.plan();
  std::vector<std::string> parts;
  if (const auto given = nodes_given(s);
      given && plan.nodes &&
      (plan.nodes->value < given->first || plan.nodes->value > given->second)) {
    parts.push_back(told(s, OptionId::nnodes, *plan.nodes));
  }
  for (const auto& [id, said] :
       {std::pair(OptionId::node_rank, plan.is_first ? std::nullopt : plan.node),
        std::pair(OptionId::nproc_per_node, plan.workers)}) {
    if (differs(s, id, said)) {
      parts.push_back(told(s, id, *said));
    }
  }
  if (!parts.empty()) {
    s.out.warnings.push_back(plan.what + ": " + join(parts, "; "));
  }
}

// Only the muster command starts one worker per GPU by default; torchrun users expect one worker.
void add_workers(const Step& s) {
  const PlatformPlan& plan = s.plan();
  if (plan.workers) {
    s.layers.add(
        OptionId::nproc_per_node, std::to_string(plan.workers->value), plan.workers->origin);
  }
  const bool says_nothing = !plan.nodes && !plan.gpus && plan.starter.empty();
  if (s.layers.is_given(OptionId::nproc_per_node) || says_nothing ||
      s.line.personality != Personality::muster) {
    return;
  }
  const Count seen = s.machine.usable_gpus(s.environ);
  if (plan.gpus && (seen.count == 0 || seen.count >= plan.gpus->value)) {
    s.layers.add(OptionId::nproc_per_node,
                 std::to_string(plan.gpus->value),
                 "one per GPU: " + plan.gpus->origin);
    return;
  }
  if (plan.gpus) {
    s.out.warnings.push_back(fmt::format("{} according to {}, but {}; starting {}",
                                         counted(plan.gpus->value, "GPU"),
                                         plan.gpus->origin,
                                         seen.reason,
                                         counted(seen.count, "worker")));
  }
  if (seen.count > 0) {
    s.layers.add(
        OptionId::nproc_per_node, std::to_string(seen.count), "one per GPU: " + seen.reason);
  }
}

// The candidate ports, mapped into --port-range if it is set.
std::vector<std::uint16_t> ports_of(const Step& s) {
  std::vector<std::uint16_t> ports = s.plan().ports->value;
  const auto range = split(s.layers.text(OptionId::port_range), '-');
  const auto first = parse_int(range.front());
  const auto last = parse_int(range.back());
  const bool derived = s.plan().ports->origin.starts_with("derived");
  if (!derived || range.size() != 2 || !first || !last || *first < 1 || *last < *first ||
      *last > std::numeric_limits<std::uint16_t>::max()) {
    return ports;
  }
  for (std::uint16_t& port : ports) {
    port = static_cast<std::uint16_t>(*first + port % (*last - *first + 1));
  }
  return ports;
}

// The host listens on the first candidate port that is free. The other nodes try all candidates in
// the same order. The host keeps only its own port, because it does not connect to the others.
void narrow_to_free(const Step& s, std::vector<std::uint16_t>& ports) {
  if (!is_host(s.plan()) || s.line.command != Command::launch) {
    return;
  }
  const auto free =
      std::ranges::find_if(ports, [&](std::uint16_t port) { return s.machine.is_port_free(port); });
  const std::uint16_t chosen = free == ports.end() ? ports.front() : *free;
  ports = {chosen};
}

std::string endpoint_list(const std::vector<std::string>& hosts,
                          const std::vector<std::uint16_t>& ports) {
  std::vector<std::string> out;
  for (const std::string& host : hosts) {
    for (const std::uint16_t port : ports) {
      out.push_back(Endpoint{host, port}.describe());
    }
  }
  return join(out, ",");
}

// If workers connect directly to the platform's address, the set of nodes is fixed, as with
// torchrun's static backend. --rank-order needs c10d.
bool wants_static(const Step& s) {
  const auto given = nodes_given(s);
  const bool elastic = given && given->first < given->second;
  return s.layers.is_given(OptionId::rdzv_backend)
             ? s.layers.text(OptionId::rdzv_backend) == "static"
             : s.plan().dialled_by_workers && !elastic && !s.layers.is_given(OptionId::rank_order);
}

// The named hosts are valid only if the platform configures the rendezvous and the user selected no
// other network. Otherwise nodes may connect from different addresses.
void note_named_hosts(const Step& s) {
  const auto nodes = nodes_given(s);
  const bool has_own_address =
      s.layers.is_given(OptionId::local_addr) || s.layers.is_given(OptionId::iface);
  if (!has_own_address && (!nodes || nodes->second <= s.plan().nodes->value)) {
    s.out.config.named_hosts = s.plan().members;
  }
}

// The rendezvous settings come from a single source. A combination of the user's endpoint and the
// platform's backend would match neither.
void add_meeting(const Step& s) {
  const PlatformPlan& plan = s.plan();
  if (says_where(s) || s.layers.is_given(OptionId::master_port) || !plan.hosts) {
    return;
  }
  const std::string origin =
      plan.hosts->origin + (plan.ports ? "; port: " + plan.ports->origin : "");
  note_named_hosts(s);
  if (wants_static(s)) {
    s.layers.add(OptionId::master_addr, plan.hosts->value.front(), plan.hosts->origin);
    if (plan.ports) {
      s.layers.add(OptionId::master_port, std::to_string(ports_of(s).front()), plan.ports->origin);
    }
    return;
  }
  std::vector<std::uint16_t> ports = plan.ports ? ports_of(s) : std::vector<std::uint16_t>{29400};
  if (plan.ports && plan.ports->value.size() > 1) {
    narrow_to_free(s, ports);
  }
  s.layers.add(OptionId::rdzv_backend, "c10d", plan.what);
  s.layers.add(OptionId::rdzv_endpoint, endpoint_list(plan.hosts->value, ports), origin);
}

void add_nodes(const Step& s) {
  const PlatformPlan& plan = s.plan();
  if (!plan.nodes || plan.nodes->value == 1) {
    return;
  }
  s.layers.add(OptionId::nnodes, std::to_string(plan.nodes->value), plan.nodes->origin);
  const auto nodes = nodes_given(s);
  if (plan.node && !plan.is_first && nodes && plan.node->value < nodes->second) {
    // A --node-rank from the user may be the same on all nodes, because torchrun's c10d ignores it.
    s.out.config.nodes_are_numbered = !plan.is_hint && !s.layers.is_given(OptionId::node_rank);
    s.layers.add(OptionId::node_rank, std::to_string(plan.node->value), plan.node->origin);
  }
  add_meeting(s);
  if (plan.run_id) {
    s.layers.add(OptionId::rdzv_id, plan.run_id->value, plan.run_id->origin);
  }
  s.out.config.task = plan.task;
}

}  // namespace

Result<void> resolve_platform(const CommandLine& line,
                              const Environ& environ,
                              const Machine& machine,
                              Layers& layers,
                              Resolved& out) {
  const Step s{line, environ, machine, layers, out};
  if (auto found = find_plan(s); !found) {
    return found;
  }
  if (s.plan().name == "none") {
    return {};
  }
  if (layers.is_on(OptionId::srun) && !s.plan().starter.empty() &&
      line.command == Command::launch) {
    out.command = started_by(s);
    return {};
  }
  for (const auto check : {check_alone, check_world_of_one, check_tasks, check_problem}) {
    if (auto done = check(s); !done) {
      return done;
    }
  }
  if (s.plan().name != "none") {
    warn_of_conflicts(s);
    add_workers(s);
    add_nodes(s);
  }
  return {};
}

}  // namespace muster
