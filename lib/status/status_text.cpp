// SPDX-License-Identifier: Apache-2.0
#include "status/status_text.hpp"

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "base/printable.hpp"
#include "status/json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace muster {
namespace {

constexpr std::size_t kFailuresShown = 3;
constexpr std::size_t kEventBytesMax = 400;
constexpr std::size_t kValueBytesMax = 160;

using Lines = std::vector<std::string>;

std::string safe_text(const Json& json, const char* name) {
  return printable(text_of(json, name));
}

std::string clock_of(double unix_seconds) {
  const std::string full = describe_wall_time(unix_seconds);  // 2026-11-21_10:11:55
  const auto at = full.find('_');
  return at == std::string::npos ? full : full.substr(at + 1);
}

std::string span_of(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e10));
  if (whole < 60) {
    return fmt::format("{} s", whole);
  }
  if (whole < 3600) {
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

// The program's name without its directory.
std::string program_of(const Json& status) {
  const std::string program = safe_text(status, "program");
  return program.substr(program.find_last_of('/') + 1);
}

std::string job_line(const Json& status) {
  std::string line = fmt::format("{}: job {}, node {}, launcher pid {}",
                                 program_of(status),
                                 safe_text(status, "job"),
                                 safe_text(status, "node"),
                                 number_of(status, "launcher_pid"));
  if (const std::string http = safe_text(status, "http"); !http.empty()) {
    line += ", http://" + http + "/";
  }
  return line;
}

std::string phase_line(const Json& status) {
  const std::string phase = safe_text(status, "phase");
  const double now = seconds_of(status, "time");
  if (phase == "ended") {
    return fmt::format("{} with exit code {} after {}",
                       safe_text(status, "outcome"),
                       number_of(status, "exit_code"),
                       span_of(seconds_of(status, "phase_since") - seconds_of(status, "started")));
  }
  return fmt::format("{} for {}, started {} ago",
                     phase,
                     span_of(now - seconds_of(status, "phase_since")),
                     span_of(now - seconds_of(status, "started")));
}

std::string round_line(const Json& status) {
  const Json& nodes = field(status, "nodes");
  std::string line = fmt::format("round {}: {} on {}",
                                 number_of(status, "round"),
                                 counted(number_of(status, "world_size"), "worker"),
                                 counted(nodes.size(), "node"));
  line += fmt::format("; regroups: {}, restarts: {} of {}",
                      number_of(status, "regroups"),
                      number_of(status, "restarts"),
                      number_of(status, "max_restarts"));
  return line;
}

std::string names_of(const Json& list) {
  Lines names;
  for (const Json& name : list) {
    names.push_back(name.is_string() ? printable(name.get<std::string>()) : "?");
  }
  return name_some(names, [](const std::string& name) { return name; });
}

// Shows the roll call while a round forms.
void add_roll_call(const Json& status, Lines& out) {
  const Json& call = field(status, "roll_call");
  if (!call.is_object()) {
    return;
  }
  std::string line = fmt::format("waiting: {} of {} {} present",
                                 number_of(call, "present"),
                                 counted(number_of(call, "needed"), "node"),
                                 is_are(number_of(call, "present")));
  if (const std::string names = names_of(field(call, "awaited")); !names.empty()) {
    line += "; missing: " + names;
  }
  if (const std::string names = names_of(field(call, "refused")); !names.empty()) {
    line += "; refused: " + names;
  }
  if (const std::string trouble = safe_text(call, "trouble"); !trouble.empty()) {
    line += "; " + trouble;
  }
  out.push_back(line);
}

// Shows the hang while the workers make no progress.
void add_hang(const Json& status, Lines& out) {
  const Json& hang = field(status, "hang");
  if (hang.is_object()) {
    out.push_back(fmt::format(
        "hang since {}: {}", clock_of(seconds_of(hang, "time")), safe_text(hang, "text")));
  }
}

void add_straggler(const Json& status, Lines& out) {
  const Json& straggler = field(status, "straggler");
  if (straggler.is_object()) {
    out.push_back(fmt::format("slow since {}: {}",
                              clock_of(seconds_of(straggler, "time")),
                              safe_text(straggler, "text")));
  }
}

// Shows how long each rank waits, shortest time first.
void add_waits(const Json& status, Lines& out) {
  std::vector<std::pair<double, std::int64_t>> waits;
  for (const Json& worker : field(status, "workers")) {
    if (const Json& share = field(worker, "waits"); share.is_number()) {
      waits.emplace_back(share.get<double>(), number_of(worker, "rank"));
    }
  }
  std::ranges::sort(waits);
  if (!waits.empty()) {
    out.push_back("waits for others: " + name_some(waits, [](const auto& one) {
                    return fmt::format("rank {} {:.0f} %", one.second, 100 * one.first);
                  }));
  }
}

void add_nodes(const Json& status, Lines& out) {
  const Json& nodes = field(status, "nodes");
  if (!nodes.is_array() || nodes.size() < 2) {
    return;
  }
  out.push_back(fmt::format("{:24} {:>13}  {}", "node", "ranks", "state"));
  for (const Json& node : nodes) {
    const std::int64_t first = number_of(node, "rank_first");
    const std::string ranks =
        fmt::format("{} to {}", first, first + number_of(node, "workers") - 1);
    out.push_back(fmt::format("{:24} {:>13}  {}{}{}",
                              printable(text_of(node, "name"), 24),
                              ranks,
                              safe_text(node, "state"),
                              number_of(node, "group_rank") == 0 ? ", leader" : "",
                              flag_of(node, "here") ? ", this node" : ""));
  }
}

// Formats ranks as "3 to 7, 9", because they are numerous and mostly consecutive.
std::string ranges_of(const std::set<std::int64_t>& ranks) {
  Lines parts;
  for (auto at = ranks.begin(); at != ranks.end();) {
    const std::int64_t first = *at;
    std::int64_t last = first;
    while (++at != ranks.end() && *at == last + 1) {
      last = *at;
    }
    parts.push_back(first == last ? fmt::format("{}", first)
                                  : fmt::format("{} to {}", first, last));
  }
  return name_some(parts, [](const std::string& part) { return part; });
}

void add_workers(const Json& status, Lines& out) {
  std::map<std::string, std::set<std::int64_t>> by_state;
  for (const Json& worker : field(status, "workers")) {
    by_state[safe_text(worker, "state")].insert(number_of(worker, "rank"));
  }
  for (const auto& [state, ranks] : by_state) {
    out.push_back(fmt::format("workers here, {}: {} ({} {})",
                              state,
                              ranks.size(),
                              agreeing(ranks.size(), "rank", "ranks"),
                              ranges_of(ranks)));
  }
  Lines unwell;
  for (const Json& worker : field(status, "workers")) {
    if (const std::string why = safe_text(worker, "unhealthy"); !why.empty()) {
      unwell.push_back(fmt::format("rank {} ({})", number_of(worker, "rank"), why));
    }
  }
  if (!unwell.empty()) {
    out.push_back("unhealthy: " + name_some(unwell, [](const std::string& one) { return one; }));
  }
}

void add_failures(const Json& status, Lines& out) {
  const Json& failures = field(status, "failures");
  const std::size_t count = failures.is_array() ? failures.size() : 0;
  for (std::size_t i = count > kFailuresShown ? count - kFailuresShown : 0; i < count; ++i) {
    const Json& failure = failures[i];
    const std::string last_line = safe_text(failure, "last_line");
    out.push_back(fmt::format("failed at {} in round {}: rank {} on {}: {}{}{}",
                              clock_of(seconds_of(failure, "time")),
                              number_of(failure, "round"),
                              number_of(failure, "rank"),
                              safe_text(failure, "node"),
                              safe_text(failure, "text"),
                              last_line.empty() ? "" : ": ",
                              last_line));
  }
}

void add_rounds(const Json& status, std::size_t most, Lines& out) {
  const Json& rounds = field(status, "rounds");
  const std::size_t count = rounds.is_array() ? rounds.size() : 0;
  for (std::size_t i = count > most ? count - most : 0; i < count; ++i) {
    const Json& round = rounds[i];
    const std::string left = names_of(field(round, "left"));
    const std::string joined = names_of(field(round, "joined"));
    const std::string why = safe_text(round, "why_ended");
    out.push_back(fmt::format("round {} from {}: {}{}{}{}{}{}{}",
                              number_of(round, "round"),
                              clock_of(seconds_of(round, "begun")),
                              counted(number_of(round, "world_size"), "worker"),
                              left.empty() ? "" : ", lost ",
                              left,
                              joined.empty() ? "" : ", joined by ",
                              joined,
                              why.empty() ? "" : "; ended: ",
                              why));
  }
}

std::string value_text(const Json& value) {
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    return printable(text.substr(0, text.find('\n')), kValueBytesMax);
  }
  if (value.is_array() || value.is_object()) {
    return fmt::format("({})", value.size());
  }
  return printable(dump_json(value), kValueBytesMax);
}

// The part of a long list that fits.
Lines fitting(Lines lines, std::size_t room, std::string_view noun) {
  if (lines.size() > room && room > 0) {
    const std::size_t left_out = lines.size() - room + 1;
    lines.resize(room - 1);
    lines.push_back("and " + counted(left_out, "more " + std::string(noun)));
  }
  lines.resize(std::min(lines.size(), room));
  return lines;
}

// The problems of the job and the state of its workers.
Lines head_of(const Json& json) {
  Lines lines{job_line(json), phase_line(json)};
  if (field(json, "round").is_number()) {
    lines.push_back(round_line(json));
  }
  add_roll_call(json, lines);
  add_hang(json, lines);
  add_workers(json, lines);
  add_straggler(json, lines);
  add_failures(json, lines);
  return lines;
}

std::size_t workers_of(const Json& status) {
  const Json& workers = field(status, "workers");
  return workers.is_array() ? workers.size() : 0;
}

std::string help_line(const Json& status, const TopView& view, std::size_t shown) {
  return fmt::format("{} to {} of {} by {}{}; q quits, s sorts, r reverses, arrows scroll",
                     view.first + 1,
                     view.first + shown,
                     counted(workers_of(status), "rank"),
                     printable(view.sort),
                     view.descending ? ", reversed" : "");
}

}  // namespace

std::string status_text(std::string_view status) {
  const Json json = parse_json(status);
  Lines lines{job_line(json), phase_line(json)};
  if (const std::string verdict = safe_text(json, "verdict"); !verdict.empty()) {
    lines.push_back(verdict);
  }
  if (field(json, "round").is_number()) {
    lines.push_back(round_line(json));
  }
  add_roll_call(json, lines);
  add_hang(json, lines);
  add_nodes(json, lines);
  add_workers(json, lines);
  add_straggler(json, lines);
  add_waits(json, lines);
  add_failures(json, lines);
  std::string out;
  for (const std::string& line : lines) {
    out += line + "\n";
  }
  return out;
}

std::string top_screen(std::string_view status, const ScreenSize& size, TopView& view) {
  const Json json = parse_json(status);
  const std::size_t rows = size.rows > 0 ? size.rows - 1 : 0;  // a full last row would scroll
  Lines lines = head_of(json);
  const std::size_t fixed = lines.size() + 1;  // with the line about keys
  const std::size_t room = rows > fixed ? rows - fixed : 0;
  const std::size_t wanted = workers_of(json) + 1;  // with a header
  Lines nodes;
  add_nodes(json, nodes);
  constexpr std::size_t kNodesPart = 3;  // of the room, if the ranks need the rest
  nodes =
      fitting(std::move(nodes), std::max(room / kNodesPart, room - std::min(room, wanted)), "node");
  const std::size_t ranks_room = room - nodes.size();
  view.first = std::min(
      view.first,
      workers_of(json) - std::min(workers_of(json), std::max<std::size_t>(1, ranks_room) - 1));
  const Lines table = rank_table(json, view, ranks_room, size.columns);
  Lines rounds;
  add_rounds(json, ranks_room - table.size(), rounds);
  for (const Lines& part : {nodes, table, rounds}) {
    lines.insert(lines.end(), part.begin(), part.end());
  }
  lines.resize(std::min(lines.size(), rows));
  if (!table.empty()) {
    lines.push_back(help_line(json, view, table.size() - 1));
  }
  std::string out;
  for (const std::string& line : lines) {
    out += shortened(line, size.columns) + "\n";
  }
  return out;
}

void take_key(TopView& view,
              std::string_view key,
              std::string_view status,
              const ScreenSize& size) {
  const Json json = parse_json(status);
  const std::size_t last = std::max<std::size_t>(1, workers_of(json)) - 1;
  const std::size_t page = std::max<std::size_t>(1, size.rows / 2);
  if (key == "s") {
    const auto titles = rank_columns(json, size.columns);
    const auto at = std::ranges::find(titles, view.sort);
    const bool is_last = at == titles.end() || at + 1 == titles.end();
    view.sort = titles.empty() ? "rank" : is_last ? titles.front() : *(at + 1);
  } else if (key == "r") {
    view.descending = !view.descending;
  } else if (key == "\x1b[A" || key == "k") {
    view.first -= std::min<std::size_t>(view.first, 1);
  } else if (key == "\x1b[B" || key == "j") {
    view.first = std::min(view.first + 1, last);
  } else if (key == "\x1b[5~") {
    view.first -= std::min(view.first, page);
  } else if (key == "\x1b[6~" || key == " ") {
    view.first = std::min(view.first + page, last);
  } else if (key == "\x1b[H" || key == "\x1b[1~") {
    view.first = 0;
  } else if (key == "\x1b[F" || key == "\x1b[4~") {
    view.first = last;
  }
}

std::string event_text(std::string_view line) {
  const Json json = parse_json(line);
  if (!field(json, "event").is_string()) {
    return printable(line, kEventBytesMax);
  }
  std::string out = fmt::format("{}  round {}  {}",
                                clock_of(seconds_of(json, "time")),
                                number_of(json, "round"),
                                safe_text(json, "event"));
  for (const auto& [name, value] : json.items()) {
    const bool envelope = name == "v" || name == "time" || name == "event" || name == "round";
    const bool empty = value.is_null() || value == "" || (value.is_array() && value.empty());
    if (!envelope && !empty) {
      out += "  " + printable(name) + "=" + value_text(value);
    }
  }
  return printable(out, kEventBytesMax);
}

}  // namespace muster
