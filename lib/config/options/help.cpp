// SPDX-License-Identifier: Apache-2.0
#include "config/options/help.hpp"

#include "base/text.hpp"
#include "config/options/settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace muster {
namespace {

constexpr std::size_t kColumn = 30;     // where the descriptions start
constexpr std::size_t kWidthMin = 60;   // terminals narrower than this wrap the lines themselves
constexpr std::size_t kWidthMax = 120;  // longer lines are hard to read

constexpr std::string_view kIntroduction =
    "usage: {0} [OPTION]... PROGRAM [ARGUMENT]...\n"
    "\n"
    "Runs N copies of PROGRAM (workers) on this node, or on every node that runs the\n"
    "same command. Sets the environment for PyTorch's init_process_group(\"env://\"),\n"
    "supervises the workers and restarts them on failure.\n"
    "\n"
    "  muster --nproc-per-node=4 train.py --lr=0.1\n"
    "  muster --nproc-per-node=auto --max-restarts=3 -m my_package.train\n"
    "  muster --nproc-per-node=2 --tee=3 --log-dir=logs ./solver input.dat\n"
    "  muster --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=head:29400 train.py\n"
    "  muster --explain=plan --nproc-per-node=2 ./solver   (starts nothing)\n";

constexpr std::string_view kEnding =
    "\nOption names may use - or _ and may be shortened to a unique prefix. An option\n"
    "can also be set as MUSTER_<NAME>, as PET_<NAME> (if listed in the manual), or in\n"
    "the --config file; the first of these wins. Exit code: that of the worker that\n"
    "failed first (128+n for signal n), or 2 for a usage error. See muster(1).\n";

std::string program_of(Personality personality) {
  switch (personality) {
    case Personality::muster:
      return "muster";
    case Personality::torchrun:
      return "torchrun";
    case Personality::torch_distributed_launch:
      return "torch.distributed.launch";
  }
  return "";
}

// "  -r, --redirects SPEC"
std::string left_side(const Option& row) {
  std::string out = row.letter != 0 ? fmt::format("  -{}, ", row.letter) : "  ";
  out += long_flag(row);
  if (!row.bare_value.empty()) {
    out += fmt::format("[={}]", row.value_name);
  } else if (!row.value_name.empty()) {
    out += fmt::format(" {}", row.value_name);
  }
  return out;
}

// The description, placed after the left side and wrapped between kColumn and the width.
std::string wrapped(std::string line, std::string_view sentence, std::size_t width) {
  std::string out;
  if (line.size() + 2 > kColumn) {
    out = line + "\n";
    line.clear();
  }
  line.resize(kColumn, ' ');
  for (const std::string& word : split(sentence, ' ')) {
    const bool empty = line.size() <= kColumn;
    if (!empty && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line.assign(kColumn, ' ');
    }
    line += (line.size() <= kColumn ? "" : " ") + word;
  }
  return out + line + "\n";
}

std::string sentence_of(const Option& row) {
  const bool says_so = row.help.find("default") != std::string_view::npos;
  if (row.default_value.empty() || row.default_value == "0" || says_so ||
      row.group == HelpGroup::compatible) {
    return std::string(row.help);
  }
  return fmt::format("{} [{}]", row.help, row.default_value);
}

}  // namespace

std::string help_text(Personality personality, int width) {
  const std::size_t columns =
      std::clamp(static_cast<std::size_t>(std::max(width, 0)), kWidthMin, kWidthMax);
  std::string out = fmt::format(kIntroduction, program_of(personality));
  for (const HelpGroup group : kHelpGroups) {
    out += fmt::format("\n{}\n", heading(group));
    for (const Option& row : all_options()) {
      if (row.group == group && !row.has(kHidden) && is_offered(row, personality)) {
        out += wrapped(left_side(row), sentence_of(row), columns);
      }
    }
  }
  return out + std::string(kEnding);
}

}  // namespace muster
