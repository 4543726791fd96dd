// SPDX-License-Identifier: Apache-2.0
// profile: records a trace of each rank on this host, and merges the traces.
#include "base/clock.hpp"
#include "base/environ.hpp"
#include "base/logger.hpp"
#include "base/plural.hpp"
#include "base/printable.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "choose_job.hpp"
#include "commands.hpp"
#include "debugger.hpp"
#include "inspect.hpp"
#include "local_job.hpp"
#include "merge_traces.hpp"
#include "rank_process.hpp"
#include "status/json.hpp"
#include "status/profile_path.hpp"
#include "trace_folder.hpp"
#include "trace_recorder.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace muster {
namespace {

// PyTorch polls for requests every 5 s, reacts within 1 s, and prepares the trace for 1 s. A busy
// host needs more.
constexpr Duration kUntilStart = std::chrono::seconds(10);

// How long the traces may take beyond the recorded time: large ones are written slowly.
constexpr Duration kWriteTime = std::chrono::minutes(1);
constexpr Duration kStepsTime = std::chrono::minutes(5);

// The random part of the name of a file that is not complete.
constexpr std::size_t kPartBytes = 4;

// -- recording --------------------------------------------------------------------------------

ProfileRequest request_for(const ControlOptions& options) {
  ProfileRequest out{.steps = options.steps};
  if (options.steps == 0) {
    const auto in_ms = [](Duration time) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
    };
    out.milliseconds = in_ms(options.seconds);
    out.start = static_cast<std::int64_t>(wall_now_seconds() * 1000) + in_ms(kUntilStart);
  }
  return out;
}

// Whether py-spy can record this rank, and why not.
Result<void> check_py_spy(const ControlOptions& options,
                          const TraceFolder& folder,
                          pid_t process,
                          const std::string& why) {
  if (!is_python(program_of(process))) {
    return failure(Errc::not_possible, why + ", and py-spy records only Python");
  }
  if (options.steps > 0) {
    return failure(Errc::not_possible,
                   why + ", and py-spy cannot count steps. Use --seconds to record with py-spy");
  }
  if (folder.for_user) {
    return failure(Errc::not_possible,
                   why + ", and root does not run py-spy for this job. Run musterctl as its user");
  }
  if (!may_trace()) {
    return failure(Errc::not_possible,
                   why +
                       ", and kernel.yama.ptrace_scope allows only root to trace it. Run 'sudo "
                       "musterctl profile'");
  }
  return {};
}

// Starts the recording of all ranks; those that cannot be recorded are added to `failed`.
Result<void> begin(const LocalJob& job,
                   const ControlOptions& options,
                   const TraceFolder& folder,
                   TraceRecorder& recorder,
                   std::vector<RecordedRank>& failed) {
  ProfileRequest request = request_for(options);
  std::error_code error;
  const std::string place =
      std::filesystem::absolute(folder.name, error).lexically_normal().string();
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.seconds).count();
  for (const LocalWorker& worker : job.workers) {
    request.rank = worker.rank;
    request.file = fmt::format("{}/rank_{}{}", place, worker.rank, kTraceEnding);
    if (!is_trace_path(request.file)) {
      return failure(Errc::usage,
                     place +
                         " contains '=' or '#', which PyTorch's profiler does not accept in "
                         "paths. Use --out");
    }
    const auto why = job.job.source.get(profile_path(request), options.time_to_find());
    MUSTER_RETURN_IF_ERROR(why);
    if (why->empty()) {
      recorder.await_kineto(worker.rank, worker.pid);
      continue;
    }
    const pid_t process = program_process(worker.pid);
    if (const auto able = check_py_spy(options, folder, process, *why); !able) {
      failed.push_back({worker.rank, process, "", able.error().message});
    } else {
      recorder.run_py_spy(worker.rank, process, py_spy_for(job), seconds);
    }
  }
  return {};
}

Duration limit_of(const ControlOptions& options) {
  return options.timeout_given ? options.timeout
         : options.steps > 0   ? kStepsTime
                               : py_spy_limit(options.seconds) + kWriteTime;
}

// -- the merged file --------------------------------------------------------------------------

using Merge = Result<void> (*)(const std::vector<RankTrace>&, std::ostream&);

// Writes the merged file if there are several traces. Returns its path, else an empty string. Other
// hosts may write to the same folder.
Result<std::string> merge_kind(const std::string& folder,
                               const char* ending,
                               const std::vector<RankTrace>& traces,
                               Merge merge) {
  if (traces.size() < 2) {
    return "";
  }
  const std::string path = folder + "/merged" + ending;
  const std::string partial = fmt::format("{}.{}.part", path, random_hex(kPartBytes));
  std::ofstream out(partial);
  if (const auto merged = merge(traces, out); !merged) {
    ::unlink(partial.c_str());
    return std::unexpected(merged.error());
  }
  out.close();
  if (!out || std::rename(partial.c_str(), path.c_str()) != 0) {
    ::unlink(partial.c_str());
    return failure(Errc::not_possible, "cannot write " + path);
  }
  return path;
}

// Merges the traces of these ranks, or of all ranks if `ranks` is null.
Result<std::vector<std::string>> merge_folder(const std::string& folder,
                                              const std::vector<RecordedRank>* ranks) {
  std::vector<std::string> out;
  for (const auto& [ending, merge] : {std::pair<const char*, Merge>{kTraceEnding, merge_traces},
                                      {kSpeedscopeEnding, merge_speedscopes}}) {
    std::vector<RankTrace> traces = traces_in(folder, ending);
    std::erase_if(traces, [ranks](const RankTrace& trace) {
      return ranks != nullptr &&
             std::ranges::find(*ranks, trace.path, &RecordedRank::file) == ranks->end();
    });
    const auto path = merge_kind(folder, ending, traces, merge);
    MUSTER_RETURN_IF_ERROR(path);
    if (!path->empty()) {
      out.push_back(*path);
    }
  }
  return out;
}

// -- the answer -------------------------------------------------------------------------------

void print_json(const std::vector<RecordedRank>& ranks, const std::vector<std::string>& merged) {
  Json out{{"traces", Json::array()}, {"merged", merged}};
  for (const RecordedRank& one : ranks) {
    Json row{{"rank", one.rank}};
    (one.error.empty() ? row["file"] : row["error"]) = one.error.empty() ? one.file : one.error;
    out["traces"].push_back(std::move(row));
  }
  print(dump_json(out) + "\n");
}

void print_files(const std::vector<RecordedRank>& ranks, const std::vector<std::string>& merged) {
  for (const RecordedRank& one : ranks) {
    if (one.error.empty()) {
      print(printable(one.file) + "\n");
    }
  }
  for (const std::string& path : merged) {
    print(printable(path) + "\n");
  }
}

Result<int> run_merge(const ControlOptions& options) {
  const auto merged = merge_folder(options.merge, nullptr);
  MUSTER_RETURN_IF_ERROR(merged);
  if (merged->empty()) {
    return failure(Errc::not_found, options.merge + " does not contain traces of several ranks");
  }
  options.json ? print_json({}, *merged) : print_files({}, *merged);
  return 0;
}

}  // namespace

Result<int> run_profile(const ControlOptions& options) {
  if (!options.merge.empty()) {
    return run_merge(options);
  }
  const auto job = find_ranks(options);
  MUSTER_RETURN_IF_ERROR(job);
  const auto folder = make_trace_folder(options.out, program_process(job->workers.front().pid));
  MUSTER_RETURN_IF_ERROR(folder);
  auto recorder = TraceRecorder::in(folder->name);
  MUSTER_RETURN_IF_ERROR(recorder);
  std::vector<RecordedRank> ranks;
  MUSTER_RETURN_IF_ERROR(begin(*job, options, *folder, **recorder, ranks));
  std::ranges::move((*recorder)->wait(limit_of(options)), std::back_inserter(ranks));
  std::ranges::sort(ranks, {}, &RecordedRank::rank);
  const auto merged = merge_folder(folder->name, &ranks);
  const std::vector<std::string> merged_files = merged.value_or(std::vector<std::string>{});
  options.json ? print_json(ranks, merged_files) : print_files(ranks, merged_files);
  int code = merged ? 0 : kExitNotThere;
  if (!merged) {
    log_error(printable("the traces were not merged: " + merged.error().message));
  }
  for (const RecordedRank& one : ranks) {
    if (!one.error.empty()) {
      log_error(fmt::format("rank {}: {}", one.rank, printable(one.error)));
      code = kExitNotThere;
    }
  }
  return code;
}

}  // namespace muster
