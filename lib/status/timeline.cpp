// SPDX-License-Identifier: Apache-2.0
#include "status/timeline.hpp"

#include "base/plural.hpp"
#include "base/printable.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace muster {
namespace {

constexpr double kWidth = 960;
constexpr double kLabelWidth = 150;
constexpr double kRightMargin = 24;
constexpr double kTop = 34;
constexpr double kNodeHeight = 20;
constexpr double kWorkerHeight = 9;
constexpr double kGap = 3;
constexpr double kBottom = 30;
constexpr double kLeastBar = 1.5;
constexpr std::size_t kLabelBytesMax = 20;

constexpr const char* kStyle = R"(<style>
.tl-bg{fill:#fff}.tl-text{fill:#1f2933;font:11px system-ui,sans-serif}
.tl-dim{fill:#66727f;font:10px system-ui,sans-serif}.tl-grid{stroke:#e3e8ee}
.tl-a{fill:#3b82c4}.tl-b{fill:#6ba4d8}.tl-succeeded{fill:#2f9e6e}.tl-failed{fill:#d64545}
.tl-stopped{fill:#a9b4c0}.tl-dying{fill:#e08e2b}.tl-running{fill:#3b82c4}.tl-mark{fill:#d64545}
@media (prefers-color-scheme:dark){.tl-bg{fill:#14181d}.tl-text{fill:#e4e8ec}
.tl-dim{fill:#93a0ad}.tl-grid{stroke:#2a3139}.tl-a{fill:#4c93d6}.tl-b{fill:#33689c}
.tl-stopped{fill:#5c6772}.tl-running{fill:#4c93d6}}
</style>)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string shortened(const std::string& name) {
  return escaped(name.size() > kLabelBytesMax ? "…" + name.substr(name.size() - kLabelBytesMax + 1)
                                              : name);
}

struct Bar {
  double begin = 0;
  double end = 0;
  std::string style;  // class
  std::string title;
};

struct TimelineRow {
  std::string label;
  double height = 0;
  std::vector<Bar> bars;
};

// Maps time to a horizontal position.
struct Scale {
  double begin = 0;
  double end = 1;

  [[nodiscard]] double x(double time) const {
    const double part = (std::clamp(time, begin, end) - begin) / (end - begin);
    return kLabelWidth + part * (kWidth - kLabelWidth - kRightMargin);
  }
};

Scale scale_of(const JobStatus& status, double now) {
  Scale scale;
  scale.begin = status.rounds.empty() ? status.started : status.rounds.front().begun;
  if (status.started > 0 && status.started < scale.begin && status.rounds.size() <= 1) {
    scale.begin = status.started;
  }
  scale.end = status.phase == JobPhase::ended ? status.changed : now;
  scale.end = std::max(scale.end, scale.begin + 0.1);
  return scale;
}

// One row per node, in the order in which the nodes joined.
std::vector<TimelineRow> node_rows(const JobStatus& status, double end) {
  std::vector<TimelineRow> rows;
  std::map<std::string, std::size_t> places;
  bool even = false;
  for (const RoundStatus& round : status.rounds) {
    even = !even;
    const std::vector<std::string> labels = node_labels(round);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const NodeStatus& node = round.nodes[i];
      const std::string title = fmt::format("round {}: {}, ranks {} to {}{}{}",
                                            round.number,
                                            labels[i],
                                            node.rank_first,
                                            node.rank_first + node.workers - 1,
                                            round.why_ended.empty() ? "" : "; ended: ",
                                            round.why_ended);
      const auto [place, is_new] = places.try_emplace(labels[i], rows.size());
      if (is_new) {
        rows.push_back(TimelineRow{labels[i], kNodeHeight, {}});
      }
      rows[place->second].bars.push_back(
          {round.begun, round.ended == 0 ? end : round.ended, even ? "tl-a" : "tl-b", title});
    }
  }
  return rows;
}

std::vector<TimelineRow> worker_rows(const JobStatus& status, double end) {
  std::vector<TimelineRow> rows;
  for (const RoundStatus& round : status.rounds) {
    for (const WorkerStatus& worker : round.workers) {
      const auto at = static_cast<std::size_t>(std::max(0, worker.local_rank));
      if (at >= kTimelineRowsMax) {
        continue;
      }
      while (rows.size() <= at) {
        rows.push_back(TimelineRow{fmt::format("local rank {}", rows.size()), kWorkerHeight, {}});
      }
      rows[at].bars.push_back(
          {worker.started,
           worker.ended == 0 ? end : worker.ended,
           fmt::format("tl-{}", describe(worker.state)),
           fmt::format("round {}: rank {}, pid {}, {}",
                       round.number,
                       worker.rank,
                       worker.pid,
                       worker.end.empty() ? describe(worker.state) : worker.end)});
    }
  }
  return rows;
}

// Returns a step of 1, 2 or 5 times a power of ten that gives a few grid lines.
double grid_step(double seconds) {
  const double rough = seconds / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) {
      return factor * power;
    }
  }
  return 10 * power;
}

std::string grid(const Scale& scale, double height) {
  std::string out;
  const double step = grid_step(scale.end - scale.begin);
  const int count = static_cast<int>((scale.end - scale.begin) / step);
  for (int i = 0; i <= count; ++i) {
    const double x = scale.x(scale.begin + i * step);
    out += fmt::format(
        "<line class=\"tl-grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\"/>"
        "<text class=\"tl-dim\" x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:g} s"
        "</text>\n",
        x,
        kTop - 6,
        height - kBottom + 4,
        height - kBottom + 18,
        i * step);
  }
  return out;
}

std::string draw(const TimelineRow& row, const Scale& scale, double y) {
  std::string out;
  const bool node = row.height == kNodeHeight;
  out += fmt::format("<text class=\"{}\" x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                     node ? "tl-text" : "tl-dim",
                     kLabelWidth - 8,
                     y + row.height / 2 + 4,
                     shortened(row.label));
  for (const Bar& bar : row.bars) {
    const double x = scale.x(bar.begin);
    out += fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{:.1f}\" rx=\"2\"><title>{}</title></rect>\n",
        bar.style,
        x,
        y,
        std::max(kLeastBar, scale.x(bar.end) - x - 0.5),
        row.height,
        escaped(bar.title));
  }
  return out;
}

// Draws a triangle above the rows for each failure.

std::string marks(const JobStatus& status, const Scale& scale) {
  std::string out;
  for (const FailureStatus& failure : status.failures) {
    const double x = scale.x(failure.time);
    out += fmt::format(
        "<path class=\"tl-mark\" d=\"M{:.1f} {}h10l-5 8z\">"
        "<title>{}</title></path>\n",
        x - 5,
        kTop - 14,
        escaped(fmt::format("rank {} on {}: {}", failure.rank, failure.node, failure.text)));
  }
  return out;
}

}  // namespace

std::string timeline_svg(const JobStatus& status, double now) {
  const Scale scale = scale_of(status, now);
  std::vector<TimelineRow> rows = node_rows(status, scale.end);
  const std::vector<TimelineRow> workers = worker_rows(status, scale.end);
  const std::size_t nodes_shown = std::min(rows.size(), kTimelineRowsMax);
  const std::size_t nodes_left_out = rows.size() - nodes_shown;
  rows.resize(nodes_shown);
  rows.insert(rows.end(), workers.begin(), workers.end());
  std::string body;
  double y = kTop;
  for (const TimelineRow& row : rows) {
    body += draw(row, scale, y);
    y += row.height + kGap;
  }
  if (nodes_left_out > 0) {
    body += fmt::format("<text class=\"tl-dim\" x=\"{}\" y=\"{:.1f}\">and {}</text>\n",
                        kLabelWidth,
                        y + 10,
                        counted(nodes_left_out, "more node"));
    y += kNodeHeight;
  }
  const double height = y + kBottom;
  const std::string title =
      fmt::format("{}: job {}, {}",
                  status.program.substr(status.program.find_last_of('/') + 1),
                  status.job,
                  status.phase == JobPhase::ended ? status.outcome : describe(status.phase));
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" "
             "width=\"{0}\" height=\"{1:.0f}\" role=\"img\" aria-label=\"timeline\">\n",
             kWidth,
             height) +
         kStyle +
         fmt::format(
             "<rect class=\"tl-bg\" width=\"100%\" height=\"100%\"/>\n"
             "<text class=\"tl-text\" x=\"8\" y=\"15\">{}</text>\n",
             escaped(title)) +
         grid(scale, height) + marks(status, scale) + body + "</svg>\n";
}

}  // namespace muster
