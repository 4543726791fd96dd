// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"
#include "config/options/values.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace muster {
namespace {

constexpr std::string_view kTemplateVariable = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";

Result<void> resolve_spec(const Resolution& r, OptionId id, StdSpec& out) {
  auto spec = parse_std_spec(r.layers.text(id));
  if (!spec) {
    return r.layers.refuse(id,
                           "must be 0, 1 (stdout), 2 (stderr), 3 (both) or RANK:VALUE,..., for "
                           "example 0:3,1:2");
  }
  out = std::move(*spec);
  return {};
}

Result<void> resolve_filter(const Resolution& r) {
  const std::string& text = r.layers.text(OptionId::local_ranks_filter);
  if (text.empty()) {
    r.show(OptionId::local_ranks_filter, "all");
    return {};
  }
  std::set<int> ranks;
  for (const std::string& part : split(text, ',')) {
    const auto rank = parse_python_int(part);
    if (!rank || *rank < std::numeric_limits<int>::min() ||
        *rank > std::numeric_limits<int>::max()) {
      return r.layers.refuse(OptionId::local_ranks_filter,
                             "must be integers separated by commas, for example 0,1,2");
    }
    ranks.insert(static_cast<int>(*rank));
  }
  r.config().local_ranks_filter = std::move(ranks);
  return {};
}

Result<void> resolve_console_ranks(const Resolution& r) {
  const std::string& text = r.layers.text(OptionId::console_ranks);
  if (text.empty()) {
    r.show(OptionId::console_ranks, "all");
    return {};
  }
  auto ranks = CpuSet::parse(text);
  if (!ranks || ranks->empty()) {
    return r.layers.refuse(
        OptionId::console_ranks,
        fmt::format("must be ranks below {}, for example 0,8-15", CpuSet::kNumbersMax));
  }
  r.config().console_ranks = std::move(*ranks);
  return {};
}

// Only lines that carry a label can be folded.
void resolve_fold(const Resolution& r) {
  LaunchConfig& config = r.config();
  const std::string& text = r.layers.text(OptionId::fold);
  config.fold = text == "on"    ? FoldLines::on
                : text == "off" ? FoldLines::off
                                : FoldLines::automatic;
  if (config.fold == FoldLines::on && !config.label && config.tee == StdSpec{}) {
    r.warn("--fold=on has no effect without --label or --tee");
  }
}

Result<void> resolve_duplicates(const Resolution& r,
                                OptionId id,
                                std::optional<std::vector<std::string>>& out) {
  if (!r.layers.is_given(id)) {
    return {};
  }
  if (r.config().logs_disabled) {
    return r.layers.refuse(id, "needs a log directory, but --log-dir is /dev/null");
  }
  out = split_with_escapes(r.layers.text(id));
  std::vector<std::string> shown;
  std::ranges::transform(*out, std::back_inserter(shown), shell_quoted);
  r.show(id, join(shown, ","));
  return {};
}

Result<void> resolve_log_dir(const Resolution& r) {
  LaunchConfig& config = r.config();
  config.log_dir = r.layers.text(OptionId::log_dir);
  if (config.log_dir.empty()) {
    return {};
  }
  if (config.log_dir == "/dev/null") {
    config.log_dir.clear();
    config.logs_disabled = true;
    r.show(OptionId::log_dir, "no files");
    return {};
  }
  const FileKind kind = r.machine.file_kind(config.log_dir);
  if (kind != FileKind::missing && kind != FileKind::folder) {
    return r.layers.refuse(OptionId::log_dir, "is a file, not a directory");
  }
  return {};
}

// Unlike torchrun, muster keeps --tee if there are no files, because users expect its prefixes.
void drop_what_needs_files(const Resolution& r) {
  LaunchConfig& config = r.config();
  if (config.logs_disabled && config.redirects != StdSpec{}) {
    r.warn("--log-dir=/dev/null: ignoring --redirects");
    config.redirects = {};
    r.show(OptionId::redirects, "0");
  }
}

void resolve_template(const Resolution& r) {
  r.config().log_line_prefix_template = r.layers.text(OptionId::log_line_prefix_template);
  const auto inherited = r.environ.get(kTemplateVariable);
  if (r.config().log_line_prefix_template.empty() && inherited && !inherited->empty()) {
    r.config().log_line_prefix_template = *inherited;
    r.show(OptionId::log_line_prefix_template, std::string(*inherited));
    r.set_origin(OptionId::log_line_prefix_template, std::string(kTemplateVariable));
  }
}

}  // namespace

Result<void> resolve_output(const Resolution& r) {
  LaunchConfig& config = r.config();
  config.label = r.layers.is_on(OptionId::label);
  config.on_event = r.layers.text(OptionId::on_event);
  if (auto done = resolve_filter(r); !done) {
    return done;
  }
  if (auto done = resolve_console_ranks(r); !done) {
    return done;
  }
  if (auto done = resolve_spec(r, OptionId::redirects, config.redirects); !done) {
    return done;
  }
  if (auto done = resolve_spec(r, OptionId::tee, config.tee); !done) {
    return done;
  }
  if (auto done = resolve_log_dir(r); !done) {
    return done;
  }
  drop_what_needs_files(r);
  resolve_fold(r);
  resolve_template(r);
  if (auto done = resolve_duplicates(
          r, OptionId::duplicate_stdout_filters, config.duplicate_stdout_filters);
      !done) {
    return done;
  }
  return resolve_duplicates(r, OptionId::duplicate_stderr_filters, config.duplicate_stderr_filters);
}

}  // namespace muster
