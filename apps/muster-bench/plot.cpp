// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/plot.hpp"

#include "apps/muster-bench/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace muster::bench {
namespace {

constexpr double kBar = 30;
constexpr double kGroupGap = 30;
constexpr double kLeft = 64;
constexpr double kRight = 20;
constexpr double kHeight = 260;  // of the area with bars
constexpr double kLegendRow = 20;
constexpr double kLegendColumn = 216;
constexpr double kTitle = 58;
constexpr double kFoot = 44;
constexpr double kLeastWidth = 480;
constexpr std::array<std::string_view, 6> kOthers{
    "#4c6ef5", "#12b886", "#be4bdb", "#e0a800", "#0b9bd1", "#e64980"};

constexpr std::string_view kStyle = R"(<style>
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 16px; font-weight: 600; }
.quiet { fill: #6e7781; }
.label { font-size: 10px; text-anchor: middle; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.whisker { stroke: #24292f; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .quiet { fill: #9198a1; }
  .grid { stroke: #3d444d; }
  .whisker { stroke: #e6edf3; }
}
</style>
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return result;
}

// Ours stands out, floors are grey, every peer has its own colour.
std::string_view colour_of(const Table& table, std::size_t row) {
  const auto& name = table.rows[row].name;
  if (name.starts_with("muster")) {
    return "#e8590c";
  }
  if (name == names::kFloor || name == names::kEcho) {
    return "#868e96";
  }
  return kOthers[row % kOthers.size()];
}

// Where things lie. The y axis grows downwards, as SVG has it.
struct Layout {
  double width = 0;
  double top = 0;
  std::size_t legend_columns = 1;
  Decades decades;

  [[nodiscard]] double bottom() const { return top + kHeight; }

  [[nodiscard]] double y(double value) const {
    const double span = decades.to - decades.from;
    const double part = (std::log10(value) - decades.from) / span;
    return bottom() - std::clamp(part, 0.0, 1.0) * kHeight;
  }
};

double group_width(const Table& table) {
  return static_cast<double>(table.rows.size()) * kBar + kGroupGap;
}

Layout layout_of(const Table& table) {
  Layout layout;
  const auto groups = static_cast<double>(table.columns.size()) * group_width(table);
  layout.width = std::max(kLeastWidth, kLeft + groups + kRight);
  layout.legend_columns =
      std::max<std::size_t>(1, static_cast<std::size_t>((layout.width - kLeft) / kLegendColumn));
  const auto rows = (table.rows.size() + layout.legend_columns - 1) / layout.legend_columns;
  layout.top = kTitle + static_cast<double>(rows) * kLegendRow + 24;
  layout.decades = decades_of(table);
  return layout;
}

std::string legend(const Table& table, const Layout& layout) {
  std::string svg;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto x = kLeft + static_cast<double>(row % layout.legend_columns) * kLegendColumn;
    const auto line = row / layout.legend_columns;
    const auto y = kTitle + static_cast<double>(line) * kLegendRow;
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
        x,
        y,
        colour_of(table, row),
        x + 18,
        y + 10,
        escaped(table.rows[row].name));
  }
  return svg;
}

// "0.1", "10", "1k", "10M".
std::string axis_label(int exponent) {
  constexpr int kThousand = 3;
  constexpr int kMillion = 6;
  if (exponent >= kMillion) {
    return fmt::format("{:.0f}M", std::pow(10.0, exponent - kMillion));
  }
  return exponent >= kThousand ? fmt::format("{:.0f}k", std::pow(10.0, exponent - kThousand))
                               : fmt::format("{:g}", std::pow(10.0, exponent));
}

std::string grid(const Layout& layout) {
  std::string svg;
  for (int exponent = layout.decades.from; exponent <= layout.decades.to; ++exponent) {
    const double value = std::pow(10.0, exponent);
    const double y = layout.y(value);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"quiet\" x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft,
        layout.width - kRight,
        y,
        y,
        kLeft - 8,
        y + 4,
        axis_label(exponent));
  }
  return svg;
}

std::string bar(const Cell& cell, const Layout& layout, double x, std::string_view colour) {
  const auto summary = summary_of(&cell);
  const double middle = x + kBar / 2;
  if (!summary || summary->median <= 0) {
    const auto why = cell.missing.empty() ? "not measured" : cell.missing;
    return fmt::format(
        "<text class=\"quiet\" transform=\"translate({:.1f} {:.1f}) rotate(-90)\">{}</text>\n",
        middle + 4,
        layout.bottom() - 6,
        escaped(why));
  }
  const double y = layout.y(summary->median);
  const double high = layout.y(std::max(summary->greatest, summary->median));
  const double low = layout.y(std::max(summary->least, summary->median / 1e6));
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\" fill=\"{}\"/>"
      "<path class=\"whisker\" fill=\"none\" d=\"M{:.1f} {:.1f}V{:.1f}M{:.1f} {:.1f}h6M{:.1f} "
      "{:.1f}h6\"/><text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
      x + 2,
      y,
      kBar - 4,
      layout.bottom() - y,
      colour,
      middle,
      high,
      low,
      middle - 3,
      high,
      middle - 3,
      low,
      middle,
      high - 5,
      readable(summary->median));
}

std::string group(const Table& table, const Layout& layout, std::size_t column) {
  const double x = kLeft + static_cast<double>(column) * group_width(table) + kGroupGap / 2;
  std::string svg;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    svg += bar(table.rows[row].cells[column],
               layout,
               x + static_cast<double>(row) * kBar,
               colour_of(table, row));
  }
  const bool disturbed = column < table.foreign.size() && table.foreign[column] > kQuietPercent;
  return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}{}</text>\n",
                           x + static_cast<double>(table.rows.size()) * kBar / 2,
                           layout.bottom() + 20,
                           escaped(table.columns[column]),
                           disturbed ? " *" : "");
}

// The least and the greatest of the positive samples; 0 before the first.
struct Extent {
  double least = 0;
  double greatest = 0;

  void take(double sample) {
    if (sample > 0) {
      least = least == 0 ? sample : std::min(least, sample);
      greatest = std::max(greatest, sample);
    }
  }
};

}  // namespace

Decades decades_of(const Table& table) {
  Extent extent;
  for (const auto& row : table.rows) {
    for (const auto& cell : row.cells) {
      for (const double sample : cell.samples) {
        extent.take(sample);
      }
    }
  }
  if (extent.least == 0) {
    return {};
  }
  const int from = static_cast<int>(std::floor(std::log10(extent.least)));
  const int to = static_cast<int>(std::ceil(std::log10(extent.greatest)));
  return {from, std::max(to, from + 1)};
}

std::string svg_of(const Table& table) {
  const auto layout = layout_of(table);
  auto svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\">\n{2}"
      "<text class=\"title\" x=\"16\" y=\"24\">{3}</text>"
      "<text class=\"quiet\" x=\"16\" y=\"43\">{4}, logarithmic; median, least and "
      "greatest</text>\n",
      layout.width,
      layout.bottom() + kFoot,
      kStyle,
      escaped(table.title),
      escaped(table.unit));
  svg += legend(table, layout) + grid(layout);
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    svg += group(table, layout, column);
  }
  return svg + "</svg>\n";
}

}  // namespace muster::bench
