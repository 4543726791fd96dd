// SPDX-License-Identifier: Apache-2.0
// Parses only the YAML subset that `accelerate config` writes: `key: value` lines, plain or quoted
// values, empty maps. Sections and unknown keys are rejected unless all of their values are unset.
#include "config/files/accelerate_config.hpp"

#include "base/printable.hpp"
#include "base/text.hpp"
#include "config/files/accelerate_json.hpp"
#include "config/options/values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

namespace muster {
namespace {

struct YamlEntry {
  std::string value;
  std::size_t line = 0;
};

using Entries = std::map<std::string, YamlEntry, std::less<>>;

constexpr std::size_t kShownMax = 60;  // bytes of the file that an error quotes

// Ignored: these keys do not affect a job on the user's own machines.
constexpr std::array<std::string_view, 9> kWithoutEffect{"main_training_function",
                                                         "same_network",
                                                         "downcast_bf16",
                                                         "tpu_use_cluster",
                                                         "tpu_use_sudo",
                                                         "tpu_env",
                                                         "tpu_name",
                                                         "tpu_zone",
                                                         "rdzv_conf"};

// Sections that configure features other than launching workers. Empty sections are accepted.
constexpr std::array<std::string_view, 7> kSections{"deepspeed_config",
                                                    "dynamo_config",
                                                    "fp8_config",
                                                    "fsdp_config",
                                                    "megatron_lm_config",
                                                    "mpirun_config",
                                                    "parallelism_config"};

constexpr std::array<std::string_view, 14> kRead{"compute_environment",
                                                 "debug",
                                                 "distributed_type",
                                                 "enable_cpu_affinity",
                                                 "gpu_ids",
                                                 "machine_rank",
                                                 "main_process_ip",
                                                 "main_process_port",
                                                 "mixed_precision",
                                                 "num_cpu_threads_per_process",
                                                 "num_machines",
                                                 "num_processes",
                                                 "rdzv_backend",
                                                 "use_cpu"};

bool is_in(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Values that mean "off" in any version of the file format.
constexpr std::array<std::string_view, 10> kOffValues{
    "", "null", "~", "{}", "[]", "NO", "No", "no", "False", "false"};

// Reads one file key by key.
class YamlReader {
 public:
  // `has_lines`: line numbers match the file, so errors include them.
  YamlReader(std::string_view path, bool has_lines) : path_(path), has_lines_(has_lines) {}

  Result<void> read(const std::string& text) {
    std::size_t number = 0;
    for (const std::string& line : split(text, '\n')) {
      if (auto taken = take(line, ++number); !taken) {
        return taken;
      }
    }
    return {};
  }

  [[nodiscard]] std::string value(std::string_view key, std::string_view otherwise) const {
    const auto found = entries_.find(key);
    return found == entries_.end() || found->second.value == "null" ? std::string(otherwise)
                                                                    : found->second.value;
  }

  [[nodiscard]] bool flag(std::string_view key) const {
    return parse_word_flag(value(key, "false")).value_or(false);
  }

  [[nodiscard]] std::unexpected<Error> refuse(std::string_view key, std::string_view why) const {
    const auto found = entries_.find(key);
    return refuse(
        found == entries_.end() ? 0 : found->second.line,
        fmt::format("{}: {}: {}", key, printable_in_line(value(key, "nothing"), kShownMax), why));
  }

  // An integer from `least` to kNumberMax; `otherwise` if the key is missing.
  [[nodiscard]] Result<std::int64_t> number(std::string_view key,
                                            std::int64_t least,
                                            std::int64_t otherwise) const {
    const std::string text = value(key, "");
    const auto parsed = parse_python_int(text);
    if (text.empty()) {
      return otherwise;
    }
    if (!parsed || *parsed < least || *parsed > kNumberMax) {
      return refuse(key, fmt::format("must be a number from {} to {}", least, kNumberMax));
    }
    return *parsed;
  }

 private:
  static constexpr std::int64_t kNumberMax = 1'000'000;  // far larger than any job needs

  [[nodiscard]] std::unexpected<Error> refuse(std::size_t line, std::string_view why) const {
    return failure(Errc::usage,
                   line == 0 || !has_lines_
                       ? fmt::format("accelerate config {}: {}", path_, why)
                       : fmt::format("accelerate config {}, line {}: {}", path_, line, why));
  }

  Result<void> take(std::string_view raw, std::size_t number) {
    const std::string_view line = without_comment(raw);
    if (trim(line).empty() || trim(line) == "---" || trim(line) == "...") {
      return {};
    }
    const auto colon = line.find(':');
    const bool is_key = colon != std::string_view::npos;
    const YamlEntry entry{is_key ? unquoted(trim(line.substr(colon + 1))) : "", number};
    const bool is_off = is_key && is_in(kOffValues, entry.value);
    if (line.front() == ' ' || line.front() == '\t' || line.front() == '-') {
      if (is_off && !trim(line).starts_with('-')) {
        return {};
      }
      return refuse(number,
                    fmt::format("'{}' is part of a section that needs accelerate launch",
                                printable_in_line(trim(line), kShownMax)));
    }
    const std::string key(trim(line.substr(0, std::min(colon, line.size()))));
    if (!is_off && !is_in(kRead, key) && !is_in(kSections, key) && !is_in(kWithoutEffect, key)) {
      return refuse(number,
                    fmt::format("unknown key '{}'; use muster's own options or accelerate launch",
                                printable_in_line(key, kShownMax)));
    }
    if (is_in(kSections, key) && !is_off) {
      return refuse(number, fmt::format("{} needs accelerate launch", key));
    }
    if (!entries_.emplace(key, entry).second) {
      return refuse(number, fmt::format("'{}' is set twice", key));
    }
    return {};
  }

  // '#' starts a comment at the start of a line or after a blank.
  static std::string_view without_comment(std::string_view line) {
    for (std::size_t at = 0; at < line.size(); ++at) {
      if (line[at] == '#' && (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t')) {
        return line.substr(0, at);
      }
    }
    return line;
  }

  static std::string unquoted(std::string_view value) {
    const bool quoted = value.size() >= 2 && value.front() == value.back() &&
                        (value.front() == '\'' || value.front() == '"');
    return std::string(quoted ? value.substr(1, value.size() - 2) : value);
  }

  std::string path_;
  bool has_lines_;
  Entries entries_;
};

Result<void> check_kind(const YamlReader& file) {
  if (file.value("compute_environment", "LOCAL_MACHINE") != "LOCAL_MACHINE") {
    return file.refuse("compute_environment",
                       "needs accelerate launch; muster supports LOCAL_MACHINE");
  }
  constexpr std::array<std::string_view, 8> kTypes{"NO",
                                                   "MULTI_CPU",
                                                   "MULTI_GPU",
                                                   "MULTI_HPU",
                                                   "MULTI_MLU",
                                                   "MULTI_MUSA",
                                                   "MULTI_NPU",
                                                   "MULTI_XPU"};
  if (!is_in(kTypes, file.value("distributed_type", "NO"))) {
    return file.refuse("distributed_type",
                       "needs accelerate launch; muster supports NO and MULTI_*");
  }
  return {};
}

// Reads the number of nodes and the number of workers per node.
Result<void> take_numbers(const YamlReader& file, AccelerateConfig& out) {
  const auto machines = file.number("num_machines", 1, 1);
  const auto workers = file.value("num_processes", "-1") == "-1"
                           ? Result<std::int64_t>(0)
                           : file.number("num_processes", 1, 0);
  const auto rank = file.number("machine_rank", 0, 0);
  for (const auto* each : {&machines, &workers, &rank}) {
    if (!*each) {
      return std::unexpected(each->error());
    }
  }
  if (*workers % *machines != 0) {
    return file.refuse("num_processes",
                       fmt::format("is not divisible by num_machines ({}); omit it and set "
                                   "--nproc-per-node on each node",
                                   *machines));
  }
  if (*workers > 0) {
    out.values[OptionId::nproc_per_node] = std::to_string(*workers / *machines);
  }
  if (*machines > 1) {
    out.values[OptionId::nnodes] = std::to_string(*machines);
    if (file.value("rdzv_backend", "static") == "static") {
      out.values[OptionId::node_rank] = std::to_string(*rank);
    }
  }
  return {};
}

// For a single node the port is used only if it is set; 0 means any free port.
Result<void> take_endpoint(const YamlReader& file, AccelerateConfig& out) {
  constexpr std::int64_t kPortMax = 65'535;
  const std::string host = file.value("main_process_ip", "");
  const auto port = file.number("main_process_port", 0, 0);
  if (!port || *port > kPortMax) {
    return port ? file.refuse("main_process_port", "must be a port")
                : std::unexpected(port.error());
  }
  if (!out.values.contains(OptionId::nnodes)) {
    if (*port != 0) {
      out.values[OptionId::master_port] = std::to_string(*port);
    }
    return {};
  }
  if (host.empty() || *port == 0) {
    return file.refuse(host.empty() ? "main_process_ip" : "main_process_port",
                       "a multi-node job needs both main_process_ip and main_process_port");
  }
  out.values[OptionId::rdzv_backend] = file.value("rdzv_backend", "static");
  out.values[OptionId::rdzv_endpoint] = fmt::format("{}:{}", host, *port);
  return {};
}

// The environment variables that Accelerate's launcher sets for the workers.
void take_variables(const YamlReader& file, AccelerateConfig& out) {
  auto& set = out.variables;
  set["ACCELERATE_USE_CPU"] = file.flag("use_cpu") ? "true" : "false";
  set["ACCELERATE_MIXED_PRECISION"] = file.value("mixed_precision", "no");
  if (file.flag("debug")) {
    set["ACCELERATE_DEBUG_MODE"] = "true";
  }
  if (file.flag("enable_cpu_affinity")) {
    set["ACCELERATE_CPU_AFFINITY"] = "1";
  }
  if (const auto gpus = file.value("gpu_ids", "all"); gpus != "all") {
    set["CUDA_VISIBLE_DEVICES"] = gpus;
  }
  if (const auto threads = file.value("num_cpu_threads_per_process", ""); !threads.empty()) {
    set["OMP_NUM_THREADS"] = threads;
  }
}

}  // namespace

Result<AccelerateConfig> parse_accelerate_config(const std::string& text, std::string_view path) {
  const bool is_json = trim(text).starts_with('{');
  const auto yaml = is_json ? yaml_of_json(text) : text;
  if (!yaml) {
    return failure(Errc::usage, fmt::format("accelerate config {}: not a JSON object", path));
  }
  YamlReader file(path, !is_json);
  AccelerateConfig out;
  MUSTER_RETURN_IF_ERROR(file.read(*yaml));
  MUSTER_RETURN_IF_ERROR(check_kind(file));
  for (const auto take : {take_numbers, take_endpoint}) {
    MUSTER_RETURN_IF_ERROR(take(file, out));
  }
  take_variables(file, out);
  return out;
}

}  // namespace muster
