// SPDX-License-Identifier: Apache-2.0
#include "platform/host_filter.hpp"

#include "base/plural.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace muster {
namespace {

// The slots that the filter lists for one host. None means the whole host.
using Slots = std::optional<std::set<int>>;
using Choice = std::map<std::string, Slots, std::less<>>;

std::unexpected<Error> wrong_filter(std::string_view entry, std::string_view why) {
  return failure(Errc::usage, fmt::format("{}: {}", shell_quoted(entry), why));
}

bool is_named(const std::vector<JobHost>& hosts, std::string_view name) {
  return std::ranges::any_of(hosts, [&](const JobHost& host) { return host.name() == name; });
}

std::string_view without_brackets(std::string_view name) {
  const bool brackets = name.starts_with('[') && name.ends_with(']');
  return brackets ? name.substr(1, name.size() - 2) : name;
}

std::optional<int> slot(std::string_view text) {
  const bool digits =
      !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  const auto number = digits ? parse_int(text) : std::nullopt;
  return number && *number < kSlotsMax ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

Result<std::set<int>> parse_slots(std::string_view text, std::string_view entry) {
  std::set<int> out;
  for (const std::string& word : split(text, ',')) {
    const auto number = slot(trim(word));
    if (!number) {
      return wrong_filter(
          entry, fmt::format("slots must be GPU indices less than {}, such as a:0,2", kSlotsMax));
    }
    out.insert(*number);
  }
  return out;
}

// If a host is listed again, its slots are added. An entry without slots selects the whole host.
void add(std::string_view name, Slots slots, Choice& choice) {
  const auto [found, is_new] = choice.try_emplace(std::string(name), slots);
  if (is_new) {
    return;
  }
  if (slots && found->second) {
    found->second->merge(*slots);
  } else {
    found->second.reset();
  }
}

// An IPv6 address contains colons, so the whole entry is tried as a name first.
Result<void> add_entry(const std::vector<JobHost>& hosts, std::string_view entry, Choice& choice) {
  if (const auto whole = without_brackets(entry); is_named(hosts, whole)) {
    add(whole, std::nullopt, choice);
    return {};
  }
  const auto colon = entry.rfind(':');
  const auto name = without_brackets(entry.substr(0, colon));
  if (!is_named(hosts, name)) {
    return wrong_filter(entry, "no host in --hosts or --hostfile has this name");
  }
  auto slots = parse_slots(entry.substr(colon + 1), entry);
  MUSTER_RETURN_IF_ERROR(slots);
  add(name, std::move(*slots), choice);
  return {};
}

Result<Choice> parse(const std::vector<JobHost>& hosts, std::string_view text) {
  Choice out;
  for (const std::string& entry : split(text, '@')) {
    MUSTER_RETURN_IF_ERROR(add_entry(hosts, trim(entry), out));
  }
  return out;
}

// The GPUs of a host; none if unknown.
std::optional<std::vector<int>> gpus_of(const JobHost& host) {
  std::vector<int> out;
  if (!host.devices.empty()) {
    for (const std::string& word : split(host.devices, ',')) {
      out.push_back(slot(word).value_or(kSlotsMax));
    }
    return out;
  }
  for (int gpu = 0; gpu < host.slots.value_or(0); ++gpu) {
    out.push_back(gpu);
  }
  return host.slots ? std::optional(std::move(out)) : std::nullopt;
}

Result<void> check_slots(const JobHost& host,
                         const std::vector<int>& gpus,
                         const std::set<int>& slots) {
  for (const int wanted : slots) {
    if (std::ranges::find(gpus, wanted) == gpus.end()) {
      return wrong_filter(fmt::format("{}:{}", host.name(), wanted),
                          fmt::format("{} has no such slot; its slots are {}",
                                      host.name(),
                                      host.devices.empty() ? fmt::format("0 to {}", gpus.size() - 1)
                                                           : host.devices));
    }
  }
  if (host.slots && static_cast<std::size_t>(*host.slots) != gpus.size()) {
    return wrong_filter(host.name(),
                        fmt::format("has {} on {}; slots require one GPU per worker",
                                    counted(*host.slots, "worker"),
                                    counted(gpus.size(), "GPU")));
  }
  return {};
}

// The GPUs of a host that remain after filtering.
Result<std::vector<int>> remaining(const JobHost& host,
                                   HostFilter filter,
                                   const std::set<int>& slots) {
  const bool includes = filter == HostFilter::include;
  auto gpus = gpus_of(host);
  if (!gpus && !includes) {
    return wrong_filter(host.name(),
                        "the number of its slots is unknown. Set it with NAME:N in --hosts");
  }
  if (!gpus) {
    return std::vector<int>(slots.begin(), slots.end());
  }
  MUSTER_RETURN_IF_ERROR(check_slots(host, *gpus, slots));
  std::erase_if(*gpus, [&](int gpu) { return slots.contains(gpu) != includes; });
  return *gpus;
}

// One worker per GPU.
JobHost with_gpus(JobHost host, const std::vector<int>& gpus) {
  std::vector<std::string> words;
  std::ranges::transform(
      gpus, std::back_inserter(words), [](int gpu) { return std::to_string(gpu); });
  host.devices = join(words, ",");
  host.slots = static_cast<int>(gpus.size());
  return host;
}

}  // namespace

Result<std::vector<JobHost>> filter_hosts(const std::vector<JobHost>& hosts,
                                          HostFilter filter,
                                          std::string_view text) {
  const auto choice = parse(hosts, text);
  MUSTER_RETURN_IF_ERROR(choice);
  const bool includes = filter == HostFilter::include;
  std::vector<JobHost> out;
  for (const JobHost& host : hosts) {
    const auto found = choice->find(host.name());
    const bool is_chosen = found != choice->end();
    if (is_chosen && found->second) {
      const auto gpus = remaining(host, filter, *found->second);
      MUSTER_RETURN_IF_ERROR(gpus);
      if (!gpus->empty()) {
        out.push_back(with_gpus(host, *gpus));
      }
    } else if (is_chosen == includes) {
      out.push_back(host);
    }
  }
  return out.empty() ? failure(Errc::usage, "no host remains")
                     : Result<std::vector<JobHost>>(std::move(out));
}

}  // namespace muster
