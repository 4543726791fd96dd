// SPDX-License-Identifier: Apache-2.0
#include "plan/process_specs.hpp"

#include "plan/local_rank.hpp"
#include "plan/log_layout.hpp"
#include "plan/macros.hpp"
#include "plan/worker_argv.hpp"
#include "plan/worker_env.hpp"

#include <utility>

namespace muster {
namespace {

enum class Stream { standard_output, standard_error };

int replacement_of(const PlanContext& context, int local_rank) {
  const auto found = context.replacements.find(local_rank);
  return found == context.replacements.end() ? 0 : found->second;
}

std::uint16_t debug_port_of(const PlanContext& context, int local_rank) {
  const auto found = context.debug_ports.find(local_rank);
  return found == context.debug_ports.end() ? std::uint16_t{0} : found->second;
}

std::string folder_of(const PlanContext& context, int attempt, int local_rank) {
  return worker_dir(context.run_dir, attempt, local_rank, replacement_of(context, local_rank));
}

// The inputs that determine the streams of one worker.
struct Place {
  const LaunchConfig& config;
  const Assignment& assignment;
  const PlanContext& context;
  int index = 0;       // in this launcher, for directory names
  int local_rank = 0;  // on the host, as in the user's options
  int rank = 0;
};

std::string line_prefix(const Place& place) {
  const std::string local_rank = std::to_string(place.local_rank);
  const std::string& text = place.config.log_line_prefix_template;
  if (text.empty()) {
    return "[" + place.config.role + local_rank + "]:";
  }
  return expand_macros(text,
                       {{"role_name", place.config.role},
                        {"local_rank", local_rank},
                        {"rank", std::to_string(place.rank)},
                        {"hostname", place.context.hostname},
                        {"pid", std::string(kPidMark)}},
                       MacroSyntax::python_template);
}

// By default, lines on a terminal are folded if there are at least this many workers.
constexpr int kFoldedWorkersMin = 4;

Fold fold_of(const LaunchConfig& config) {
  if (config.fold == FoldLines::automatic) {
    return config.nproc >= kFoldedWorkersMin ? Fold::on_terminal : Fold::never;
  }
  return config.fold == FoldLines::on ? Fold::always : Fold::never;
}

void add_label(OutputPlan& plan, const Place& place) {
  plan.prefix = line_prefix(place);
  plan.fold = fold_of(place.config);
  plan.rank = plan.fold == Fold::never ? 0 : place.rank;
}

bool passes_filter(const LaunchConfig& config, int local_rank) {
  const auto& filter = config.local_ranks_filter;
  return !filter || filter->contains(local_rank);
}

bool is_shown(const Place& place) {
  const auto& ranks = place.config.console_ranks;
  return passes_filter(place.config, place.local_rank) && (!ranks || ranks->contains(place.rank));
}

bool wants(const StdSpec& spec, int local_rank, Stream stream) {
  return stream == Stream::standard_output ? spec.wants_stdout(local_rank)
                                           : spec.wants_stderr(local_rank);
}

// The plan for a stream without a file. stdout is inherited, which avoids a copy, unless lines of
// several ranks could be interleaved. muster copies stderr because a failure report needs its last
// lines, even for a rank whose output is not shown. An interactive program, however, needs the
// terminal itself.
OutputPlan console_plan(const Place& place, Stream stream, bool labelled) {
  OutputPlan plan;
  if (!is_shown(place)) {
    plan.kind = stream == Stream::standard_output ? OutputKind::discard : OutputKind::keep;
    return plan;
  }
  const bool reads = place.config.stdin_rank == place.index;
  plan.prompts = reads && place.context.stdin_is_terminal;
  if (labelled) {
    plan.kind = OutputKind::capture;
    add_label(plan, place);
    return plan;
  }
  const bool alone = place.config.nproc == 1;
  const bool talks = alone || (reads && place.config.stdin_rank_chosen);
  const bool direct = stream == Stream::standard_output ? alone || !place.context.stdout_is_torn
                                                        : place.context.stderr_is_terminal && talks;
  plan.kind = direct ? OutputKind::inherit : OutputKind::capture;
  return plan;
}

void add_filters(OutputPlan& plan, const Place& place, Stream stream) {
  const bool out = stream == Stream::standard_output;
  const auto& filters =
      out ? place.config.duplicate_stdout_filters : place.config.duplicate_stderr_filters;
  if (!filters) {
    return;
  }
  plan.filters = *filters;
  plan.filtered_path = attempt_dir(place.context.run_dir, place.assignment.attempt) +
                       (out ? "/filtered_stdout.log" : "/filtered_stderr.log");
}

OutputPlan output_plan(const Place& place, Stream stream) {
  const bool out = stream == Stream::standard_output;
  const bool tee = wants(place.config.tee, place.local_rank, stream);
  const bool has_files = !place.context.run_dir.empty();
  if (!has_files || (!tee && !wants(place.config.redirects, place.local_rank, stream))) {
    return console_plan(place, stream, place.config.label || (!has_files && tee));
  }
  OutputPlan plan;
  plan.kind = OutputKind::file;
  plan.path = folder_of(place.context, place.assignment.attempt, place.index) +
              (out ? "/stdout.log" : "/stderr.log");
  plan.tee = tee && is_shown(place);
  if (plan.tee) {
    add_label(plan, place);
    add_filters(plan, place, stream);
  }
  return plan;
}

// If the launcher's stdout and stderr are the same pipe or file, a worker gets one pipe for both,
// so that its lines stay in the order in which they were written.
void join_streams(ProcessSpec& spec, const PlanContext& context) {
  OutputPlan& out = spec.standard_output;
  OutputPlan& err = spec.standard_error;
  const bool is_alike = out.kind == OutputKind::inherit ||
                        (out.kind == OutputKind::capture && out.prefix == err.prefix);
  if (context.one_sink && is_alike && err.kind == OutputKind::capture) {
    err.hangs_up = out.kind == OutputKind::inherit;
    out = std::exchange(err, OutputPlan{.kind = OutputKind::joined});
  }
}

// Before a round it is unknown which ranks this node gets, so --console-ranks may hide any worker.
bool is_seen(const LaunchConfig& config, int local_rank, Stream stream) {
  const bool tee = wants(config.tee, local_rank, stream);
  const bool file = !config.logs_disabled && (tee || wants(config.redirects, local_rank, stream));
  const bool shown = passes_filter(config, local_rank) && !config.console_ranks;
  return file || (shown && (config.label || tee));
}

}  // namespace

bool sees_all_output(const LaunchConfig& config) {
  for (int index = 0; index < config.nproc; ++index) {
    const int local_rank = place_on_machine(config, index);
    if (!is_seen(config, local_rank, Stream::standard_output) ||
        !is_seen(config, local_rank, Stream::standard_error)) {
      return false;
    }
  }
  return true;
}

std::string error_file_path(const PlanContext& context, int attempt, int local_rank) {
  return context.run_dir.empty() ? "" : folder_of(context, attempt, local_rank) + "/error.json";
}

std::vector<int> debugged_ranks(const LaunchConfig& config, const Assignment& assignment) {
  std::vector<int> out;
  for (int local_rank = 0; local_rank < assignment.local_world_size; ++local_rank) {
    if (config.debug_ranks && config.debug_ranks->contains(assignment.rank_first + local_rank)) {
      out.push_back(local_rank);
    }
  }
  return out;
}

Result<std::vector<ProcessSpec>> process_specs(const LaunchConfig& config,
                                               const Environ& environ,
                                               const Assignment& assignment,
                                               const PlanContext& context) {
  std::vector<ProcessSpec> specs;
  specs.reserve(static_cast<std::size_t>(assignment.local_world_size));
  for (int local_rank = 0; local_rank < assignment.local_world_size; ++local_rank) {
    const WorkerContact contact{error_file_path(context, assignment.attempt, local_rank),
                                context.agent_socket,
                                context.flights,
                                context.timer_file,
                                context.kineto_folder};
    auto env = worker_env(config, environ, assignment, local_rank, contact);
    MUSTER_RETURN_IF_ERROR(env);
    ProcessSpec spec;
    spec.local_rank = local_rank;
    spec.rank = assignment.rank_first + local_rank;
    spec.replacement = replacement_of(context, local_rank);
    const std::uint16_t debug_port = debug_port_of(context, local_rank);
    spec.argv = worker_argv(config, assignment, local_rank, debug_port);
    spec.environment = env->to_block();
    spec.warm = config.warm && debug_port == 0;  // debugpy starts the program
    const auto& ranks = config.numa_plan.ranks;
    if (const auto index = static_cast<std::size_t>(local_rank); index < ranks.size()) {
      spec.cpus = ranks[index].cpus;
      spec.memory = ranks[index].memory;
    }
    spec.standard_input = config.stdin_rank == local_rank ? InputKind::inherit : InputKind::none;
    const Place place{
        config, assignment, context, local_rank, place_on_machine(config, local_rank), spec.rank};
    spec.standard_output = output_plan(place, Stream::standard_output);
    spec.standard_error = output_plan(place, Stream::standard_error);
    join_streams(spec, context);
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace muster
