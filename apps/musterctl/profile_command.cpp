// SPDX-License-Identifier: Apache-2.0
// profile: records a trace of each rank on this host, and merges the traces.
#include "base/clock.hpp"
#include "base/environ.hpp"
#include "base/logger.hpp"
#include "base/plural.hpp"
#include "base/printable.hpp"
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
#include "trace_recorder.hpp"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

// PyTorch asks for requests every 5 s, and prepares the trace for 1 s.
constexpr Duration kUntilStart = std::chrono::seconds(7);

// How long the traces may take beyond the recorded time: large ones are written slowly.
constexpr Duration kWriteTime = std::chrono::minutes(1);
constexpr Duration kStepsTime = std::chrono::minutes(5);

// -- the folder -------------------------------------------------------------------------------

// A job's user must be able to write to the folder that root creates.
Result<std::string> make_folder(const ControlOptions& options, pid_t worker) {
  std::string name = options.out;
  if (name.empty()) {
    name = fmt::format("muster_profile_{:%Y%m%d_%H%M%S}", fmt::localtime(std::time(nullptr)));
  }
  std::error_code error;
  const bool created = std::filesystem::create_directories(name, error);
  if (error) {
    return failure(Errc::not_possible, fmt::format("cannot create {}: {}", name, error.message()));
  }

  struct stat facts {};

  if (created && ::geteuid() == 0 &&
      (::stat(fmt::format("/proc/{}", worker).c_str(), &facts) != 0 ||
       ::chown(name.c_str(), facts.st_uid, facts.st_gid) != 0)) {
    return std::unexpected(system_error("cannot give " + name + " to the job's user", errno));
  }
  return name;
}

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

// How py-spy would record this rank, or why it cannot.
Result<void> check_py_spy(const ControlOptions& options, pid_t process, const std::string& why) {
  if (!is_python(program_of(process))) {
    return failure(Errc::not_possible, why + ", and py-spy records only Python");
  }
  if (options.steps > 0) {
    return failure(Errc::not_possible,
                   why + ", and py-spy cannot count steps. --seconds records with py-spy");
  }
  if (!may_trace()) {
    return failure(Errc::not_possible,
                   why + ", and kernel.yama.ptrace_scope allows only root to run py-spy");
  }
  return {};
}

// Starts the recording of all ranks; those that cannot be recorded are added to `failed`.
Result<void> begin(const LocalJob& job,
                   const ControlOptions& options,
                   const std::string& folder,
                   TraceRecorder& recorder,
                   std::vector<RecordedRank>& failed) {
  ProfileRequest request = request_for(options);
  std::error_code error;
  const std::string place = std::filesystem::absolute(folder, error).lexically_normal().string();
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.seconds).count();
  for (const LocalWorker& worker : job.workers) {
    request.rank = worker.rank;
    request.file = fmt::format("{}/rank_{}{}", place, worker.rank, kTraceEnding);
    const auto why = job.job.source.get(profile_path(request), options.time_to_find());
    MUSTER_RETURN_IF_ERROR(why);
    if (why->empty()) {
      recorder.await_kineto(worker.rank, worker.pid);
      continue;
    }
    const pid_t process = program_process(worker.pid);
    if (const auto able = check_py_spy(options, process, *why); !able) {
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
                               : kUntilStart + options.seconds + kWriteTime;
}

// -- the merged file --------------------------------------------------------------------------

using Merge = Result<void> (*)(const std::vector<RankTrace>&, std::ostream&);

// Writes the merged file if there are several traces. Returns its path, else an empty string.
Result<std::string> merge_kind(const std::string& folder, const char* ending, Merge merge) {
  const std::vector<RankTrace> traces = traces_in(folder, ending);
  if (traces.size() < 2) {
    return "";
  }
  const std::string path = folder + "/merged" + ending;
  const std::string partial = path + ".part";
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

Result<std::vector<std::string>> merge_folder(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& [ending, merge] : {std::pair<const char*, Merge>{kTraceEnding, merge_traces},
                                      {kSpeedscopeEnding, merge_speedscopes}}) {
    const auto path = merge_kind(folder, ending, merge);
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
  const auto merged = merge_folder(options.merge);
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
  const auto folder = make_folder(options, job->workers.front().pid);
  MUSTER_RETURN_IF_ERROR(folder);
  auto recorder = TraceRecorder::in(*folder);
  MUSTER_RETURN_IF_ERROR(recorder);
  std::vector<RecordedRank> ranks;
  MUSTER_RETURN_IF_ERROR(begin(*job, options, *folder, **recorder, ranks));
  std::ranges::move((*recorder)->wait(limit_of(options)), std::back_inserter(ranks));
  std::ranges::sort(ranks, {}, &RecordedRank::rank);
  const auto merged = merge_folder(*folder);
  MUSTER_RETURN_IF_ERROR(merged);
  options.json ? print_json(ranks, *merged) : print_files(ranks, *merged);
  int code = 0;
  for (const RecordedRank& one : ranks) {
    if (!one.error.empty()) {
      log_error(fmt::format("rank {}: {}", one.rank, printable(one.error)));
      code = kExitNotThere;
    }
  }
  return code;
}

}  // namespace muster
