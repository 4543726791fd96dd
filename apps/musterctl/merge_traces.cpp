// SPDX-License-Identifier: Apache-2.0
#include "merge_traces.hpp"

#include "base/text.hpp"
#include "status/json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace muster {
namespace {

constexpr std::string_view kStem = "rank_";

// New process ids of a rank begin with its number, and are unique in the merged file.
constexpr std::int64_t kProcessesMax = 1000;

// The same for the ids of arrows. The largest number is below 2^53, since it is a double in
// viewers.
constexpr std::int64_t kIdsMax = std::int64_t{1} << 29;
constexpr std::int64_t kRanksMax = std::int64_t{1} << 24;

constexpr double kNanosecondsPerTick = 1000;  // times of events are in µs

Error unreadable(const RankTrace& trace) {
  return {Errc::not_possible, trace.path + " is not a complete trace"};
}

// The JSON library throws if a value has an unexpected type.
bool succeeds(const std::function<bool()>& call) {
  try {
    return call();
  } catch (const Json::exception&) {
    return false;
  }
}

// Kineto sorts a rank's own process first, then its GPUs, then the spans of the profiler.
std::int64_t sort_class(std::int64_t kineto_index) {
  constexpr std::int64_t kGpus = 5'000'000;
  constexpr std::int64_t kSpans = 500'000'000;
  return kineto_index < kGpus ? 0 : kineto_index < kSpans ? 1 : 2;
}

// Rewrites the events of one trace.
class TraceMerger {
 public:
  TraceMerger(int rank, std::optional<std::int64_t>& base, bool& is_first, std::ostream& out)
      : rank_(rank), base_(base), is_first_(is_first), out_(out) {}

  bool merge(std::istream& in) {
    const Json rest = Json::parse(
        in,
        [this](int depth, Json::parse_event_t event, Json& value) {
          return keep(depth, event, value);
        },
        false);
    return !rest.is_discarded() && has_events_;
  }

 private:
  // The parser's callback: drops each event after it was written.
  bool keep(int depth, Json::parse_event_t event, Json& value) {
    if (depth == 1 && event == Json::parse_event_t::key) {
      key_ = value.get<std::string>();
      has_events_ = has_events_ || key_ == "traceEvents";
    } else if (depth == 1 && event == Json::parse_event_t::value && value.is_number_integer() &&
               key_ == "baseTimeNanoseconds") {
      own_base_ = value.get<std::int64_t>();
      base_ = base_.value_or(own_base_);
    } else if (depth == 2 && event == Json::parse_event_t::object_end && key_ == "traceEvents") {
      write(std::move(value));
      return false;
    }
    return true;
  }

  void write(Json event) {
    if (const auto pid = event.find("pid"); pid != event.end()) {
      *pid = process(*pid);
    }
    if (const auto id = event.find("id"); id != event.end()) {
      *id = unique(*id);
    }
    if (const auto time = event.find("ts"); time != event.end() && time->is_number() && shift()) {
      *time = time->get<double>() + shift() / kNanosecondsPerTick;
    }
    if (text_of(event, "ph") == "M") {
      describe_process(event);
    }
    out_ << (std::exchange(is_first_, false) ? "" : ",\n")
         << event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  // Perfetto reads numbers, and only hexadecimal texts, as the ids of arrows.
  [[nodiscard]] Json unique(const Json& id) const {
    const bool is_number = id.is_number_integer() && id >= 0 && id < kIdsMax;
    return is_number ? Json(rank_ * kIdsMax + id.get<std::int64_t>())
                     : Json(fmt::format("{}.{}", rank_, dump_json(id)));
  }

  // Kineto's times are relative to the trace's base.
  [[nodiscard]] double shift() const {
    return static_cast<double>(own_base_ - base_.value_or(own_base_));
  }

  std::int64_t process(const Json& pid) {
    const auto next = static_cast<std::int64_t>(processes_.size());
    const auto added = processes_.emplace(dump_json(pid), std::min(next, kProcessesMax - 1));
    return rank_ * kProcessesMax + added.first->second;
  }

  void describe_process(Json& event) const {
    const std::string what = text_of(event, "name");
    Json& values = event["args"];
    if (what == "process_name") {
      values["name"] = fmt::format("rank {}: {}", rank_, text_of(values, "name"));
    } else if (what == "process_sort_index") {
      values["sort_index"] = rank_ * 3 + sort_class(number_of(values, "sort_index"));
    }
  }

  int rank_;
  std::optional<std::int64_t>& base_;  // of the merged trace
  bool& is_first_;
  std::ostream& out_;
  std::int64_t own_base_ = 0;
  std::string key_;
  bool has_events_ = false;
  std::map<std::string, std::int64_t> processes_;
};

// speedscope: appends a profile whose frames follow those of the others.
void move_frames(Json& profile, std::size_t first) {
  for (const char* const list : {"samples", "events"}) {
    const auto found = profile.find(list);
    if (found == profile.end()) {
      continue;
    }
    for (Json& entry : *found) {
      if (entry.is_array()) {
        for (Json& frame : entry) {
          frame = frame.get<std::size_t>() + first;
        }
      } else if (entry.contains("frame")) {
        entry["frame"] = entry["frame"].get<std::size_t>() + first;
      }
    }
  }
}

bool append_speedscope(const RankTrace& trace, Json& merged) {
  std::ifstream in(trace.path);
  Json own = Json::parse(in, nullptr, false);
  if (own.is_discarded() || !field(own, "profiles").is_array() ||
      !field(field(own, "shared"), "frames").is_array()) {
    return false;
  }
  if (merged.is_null()) {
    merged = own;
    merged["profiles"] = Json::array();
    merged["shared"]["frames"] = Json::array();
    merged["name"] = "all ranks";
  }
  Json& frames = merged["shared"]["frames"];
  const std::size_t first = frames.size();
  for (Json& frame : own["shared"]["frames"]) {
    frames.push_back(std::move(frame));
  }
  for (Json& profile : own["profiles"]) {
    move_frames(profile, first);
    profile["name"] = fmt::format("rank {}: {}", trace.rank, text_of(profile, "name"));
    merged["profiles"].push_back(std::move(profile));
  }
  return true;
}

}  // namespace

std::vector<RankTrace> traces_in(const std::string& folder, const char* ending) {
  std::vector<RankTrace> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kStem) || !name.ends_with(ending) || entry.is_symlink(error)) {
      continue;
    }
    const auto number = parse_int(std::string_view(name).substr(
        kStem.size(), name.size() - kStem.size() - std::string_view(ending).size()));
    if (number && *number >= 0 && *number < kRanksMax) {
      out.push_back({static_cast<int>(*number), entry.path().string()});
    }
  }
  std::ranges::sort(out, {}, &RankTrace::rank);
  return out;
}

Result<void> merge_traces(const std::vector<RankTrace>& traces, std::ostream& out) {
  std::optional<std::int64_t> base;
  bool is_first = true;
  out << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (const RankTrace& trace : traces) {
    if (!succeeds([&] {
          std::ifstream in(trace.path);
          return TraceMerger(trace.rank, base, is_first, out).merge(in);
        })) {
      return std::unexpected(unreadable(trace));
    }
  }
  out << fmt::format("\n], \"baseTimeNanoseconds\": {}}}\n", base.value_or(0));
  return {};
}

Result<void> merge_speedscopes(const std::vector<RankTrace>& traces, std::ostream& out) {
  Json merged;
  for (const RankTrace& trace : traces) {
    if (!succeeds([&] { return append_speedscope(trace, merged); })) {
      return std::unexpected(unreadable(trace));
    }
  }
  out << dump_json(merged) << "\n";
  return {};
}

}  // namespace muster
