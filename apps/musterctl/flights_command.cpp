// SPDX-License-Identifier: Apache-2.0
// flights: shows the position of each rank in its collectives and which ranks are behind. Uses the
// flight recorders of muster's collective library and of PyTorch. Reads a running job, a process
// tree, or a directory of recorders and PyTorch dumps. For a process tree, killed ranks are shown
// as well, as long as their launcher or another rank on their host is alive.
#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "flight_groups.hpp"
#include "hang/gather/pickle.hpp"
#include "hang/gather/torch_dump.hpp"
#include "hang/judge/positions.hpp"
#include "inspect.hpp"
#include "local_job.hpp"
#include "recorder_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace muster {
namespace {

namespace fs = std::filesystem;

// The positions found, and warnings about missing positions.
struct Flights {
  FlightGroups groups;
  std::vector<std::string> gaps;
};

void add_recorders(const std::vector<std::string>& places, Flights& out) {
  const auto now = static_cast<std::uint64_t>(steady_now().time_since_epoch().count());
  for (const collective::FlightLog& log : read_recorders(places)) {
    for (auto& [pid, position] : hang::positions_of({log}, now)) {
      const bool used =
          position.entered > 0 || !position.recent.empty() || !position.pending.empty();
      if (used || !position.group.ends_with("GPUs")) {
        out.groups.add(log.rank, std::move(position));
      }
    }
  }
}

void add_job(const LocalJob& job, Flights& out) {
  add_recorders({std::to_string(job.job.agent_pid)}, out);
  hang::Evidence evidence = torch_operations(job);
  for (hang::RankEvidence& rank : evidence.ranks) {
    for (hang::Position& position : rank.positions) {
      out.groups.add(rank.rank, std::move(position));
    }
  }
  std::ranges::move(evidence.gaps, std::back_inserter(out.gaps));
}

// The last number in the file name, as in "nccl_trace_rank_12" or "trace-3.pickle".
std::optional<int> rank_in(const std::string& name) {
  const auto last = name.find_last_of("0123456789");
  if (last == std::string::npos) {
    return std::nullopt;
  }
  const auto before = name.find_last_not_of("0123456789", last);
  const auto first = before == std::string::npos ? 0 : before + 1;
  const auto rank = parse_int(name.substr(first, last + 1 - first));
  return rank && *rank <= INT32_MAX ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

// The time at which a dump was written.
std::uint64_t written_ns(const fs::path& path) {
  std::error_code error;
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path, error);
  const double seconds = wall_now_seconds() - std::chrono::duration<double>(age).count();
  return error || seconds < 0 ? 0 : static_cast<std::uint64_t>(seconds * 1e9);
}

constexpr std::string_view kPickleBegin = "\x80\x02";

void add_dump(const fs::path& path, Flights& out) {
  std::error_code error;
  const auto rank = rank_in(path.filename().string());
  if (!rank || !fs::is_regular_file(path, error) ||
      fs::file_size(path, error) > hang::kPickleBytesMax) {
    return;
  }
  std::ifstream file(path, std::ios::binary);
  std::string begin(kPickleBegin.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (!file || begin != kPickleBegin) {
    return;  // not a dump
  }
  const std::string bytes =
      begin + std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  auto positions =
      hang::torch_positions(bytes, {.rank = *rank, .backend = "", .now = written_ns(path)});
  if (!positions) {
    out.gaps.push_back(path.string() + ": " + positions.error().message);
    return;
  }
  for (hang::Position& position : *positions) {
    out.groups.add(*rank, std::move(position));
  }
}

void add_places(const std::vector<std::string>& places, Flights& out) {
  add_recorders(places, out);
  for (const std::string& place : places) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
      files.push_back(at->path());
    }
    std::ranges::sort(files);
    for (const fs::path& path : parse_int(place) ? std::vector<fs::path>{} : files) {
      add_dump(path, out);
    }
  }
}

constexpr const char* kNothing =
    "no flight recorder found. A job has one only if it uses muster's collective library, or "
    "PyTorch under muster with --hang-timeout. If muster did not find the job itself, pass a "
    "directory (the value of MUSTER_COLLECTIVE_FLIGHT_DIR, or a directory with PyTorch's dumps) or "
    "the pid of a rank or of its launcher, and run musterctl as the job's user";

}  // namespace

Result<int> run_flights(const ControlOptions& options) {
  Flights found;
  if (options.args.empty()) {
    auto job = find_local_job(options);
    MUSTER_RETURN_IF_ERROR(job);
    add_job(*job, found);
  } else {
    add_places(options.args, found);
  }
  if (found.groups.empty() && found.gaps.empty()) {
    return failure(Errc::not_found, kNothing);
  }
  if (options.json) {
    print(found.groups.json(found.gaps));
    return 0;
  }
  print(found.groups.text());
  for (const std::string& gap : found.gaps) {
    print(printable(gap, kStackLineBytesMax) + "\n");
  }
  return 0;
}

}  // namespace muster
