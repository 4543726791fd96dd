// SPDX-License-Identifier: Apache-2.0
#include "platform/job_hosts.hpp"

#include "base/text.hpp"
#include "platform/host_list.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace muster {
namespace {

using Hosts = std::vector<JobHost>;

std::unexpected<Error> wrong(std::string_view entry, std::string_view why) {
  return failure(Errc::usage, fmt::format("{}: {}", shell_quoted(entry), why));
}

bool consists_of(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) != 0 || more.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// Nothing that a shell or a remote shell's own options could take for something else.
bool is_host(std::string_view name) {
  return !name.empty() && name.front() != '-' && consists_of(name, "._-:%");
}

bool is_user(std::string_view name) {
  return !name.empty() && name.front() != '-' && consists_of(name, "._-+");
}

// An entry cut into its parts; `names` may be a range.
struct Parts {
  std::string_view user;
  std::string_view names;
  std::string_view slots;
  bool has_user = false;
  bool has_slots = false;
  bool is_address = false;  // IPv6: `names` is one address
};

void cut_slots(Parts& parts, std::size_t from) {
  const auto colon = parts.names.find(':', from);
  if (colon != std::string_view::npos) {
    parts.has_slots = true;
    parts.slots = parts.names.substr(colon + 1);
    parts.names = parts.names.substr(0, colon);
  }
}

// "[::1]:4": brackets around colons are an address, others a range.
Parts cut(std::string_view entry) {
  Parts parts;
  parts.names = entry;
  if (const auto at = entry.rfind('@'); at != std::string_view::npos) {
    parts.has_user = true;
    parts.user = entry.substr(0, at);
    parts.names = entry.substr(at + 1);
  }
  const auto end = parts.names.find(']');
  if (parts.names.starts_with('[') && parts.names.substr(0, end).find(':') != end &&
      parts.names.substr(0, end).find(':') != std::string_view::npos) {
    parts.is_address = true;
    cut_slots(parts, std::min(end, parts.names.size()));
    const bool closed = parts.names.ends_with(']');
    parts.names = closed ? parts.names.substr(1, parts.names.size() - 2) : std::string_view();
  } else if (std::ranges::count(parts.names, ':') > 1) {
    parts.is_address = true;
  } else {
    cut_slots(parts, 0);
  }
  return parts;
}

Result<std::optional<int>> slots_of(const Parts& parts, std::string_view entry) {
  if (!parts.has_slots) {
    return std::nullopt;
  }
  const auto number = consists_of(parts.slots, "") ? parse_int(parts.slots) : std::nullopt;
  if (!number || *number < 1 || *number > kSlotsMax) {
    return wrong(entry, fmt::format("behind ':' stands the number of workers, 1 to {}", kSlotsMax));
  }
  return static_cast<int>(*number);
}

Result<std::vector<std::string>> names_of(const Parts& parts, std::string_view entry) {
  if (parts.is_address) {
    return std::vector<std::string>{std::string(parts.names)};
  }
  if (parts.names.empty() ||
      std::ranges::any_of(parts.names, [](unsigned char c) { return std::isspace(c) != 0; })) {
    return wrong(entry, "is no name of a machine");
  }
  return expand_host_list(parts.names);
}

Result<void> add_entry(std::string_view entry, Hosts& out) {
  const Parts parts = cut(entry);
  const auto slots = slots_of(parts, entry);
  if (!slots) {
    return std::unexpected(slots.error());
  }
  const auto names = names_of(parts, entry);
  if (!names) {
    return std::unexpected(names.error());
  }
  if (names->size() > kJobHostsMax - out.size()) {
    return wrong(entry, fmt::format("more than {} machines", kJobHostsMax));
  }
  for (const std::string& name : *names) {
    if (!is_host(name) || (parts.has_user && !is_user(parts.user))) {
      return wrong(entry, "is no name of a machine");
    }
    out.push_back({(parts.has_user ? std::string(parts.user) + "@" : "") + name, *slots});
  }
  return {};
}

// At commas that are not inside of brackets.
std::vector<std::string_view> entries(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      out.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else {
      depth += text[i] == '[' ? 1 : 0;
      depth -= text[i] == ']' && depth > 0 ? 1 : 0;
    }
  }
  return out;
}

// A host that is named n times has n slots, as in a node file of PBS; the first place counts.
Hosts merged(const Hosts& named) {
  Hosts out;
  for (const JobHost& host : named) {
    const auto found = std::ranges::find(out, host.target, &JobHost::target);
    if (found == out.end()) {
      out.push_back(host);
    } else {
      found->slots = std::min(found->slots.value_or(1) + host.slots.value_or(1), kSlotsMax);
    }
  }
  if (out.size() < named.size()) {
    for (JobHost& host : out) {
      host.slots = host.slots.value_or(1);
    }
  }
  return out;
}

// "slots=4"; what else mpirun knows and does not matter here is passed over.
Result<void> take_word(std::string_view word, JobHost& host) {
  if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) {
    return {};
  }
  const auto number = word.starts_with("slots=") ? parse_int(word.substr(6)) : std::nullopt;
  if (!number || *number < 1 || *number > kSlotsMax) {
    return wrong(word, fmt::format("only slots=N may stand behind a host, 1 to {}", kSlotsMax));
  }
  host.slots = static_cast<int>(*number);
  return {};
}

Result<void> add_line(std::string_view line, Hosts& out) {
  std::string blanks(line.substr(0, line.find('#')));
  std::ranges::replace_if(
      blanks, [](unsigned char c) { return std::isspace(c) != 0; }, ' ');
  auto words = split(blanks, ' ');
  std::erase(words, "");
  const std::size_t first = out.size();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i == 0) {
      if (auto added = add_entry(words[i], out); !added) {
        return added;
      }
      continue;
    }
    for (std::size_t at = first; at < out.size(); ++at) {
      if (auto taken = take_word(words[i], out[at]); !taken) {
        return taken;
      }
    }
  }
  return {};
}

Result<Hosts> finished(const Hosts& named) {
  if (named.empty()) {
    return failure(Errc::usage, "no machine is named");
  }
  return merged(named);
}

}  // namespace

std::string JobHost::name() const {
  return target.substr(target.rfind('@') + 1);
}

Result<Hosts> parse_job_hosts(std::string_view text) {
  Hosts named;
  for (const std::string_view entry : entries(text)) {
    if (auto added = add_entry(entry, named); !added) {
      return std::unexpected(added.error());
    }
  }
  return finished(named);
}

Result<Hosts> parse_host_file(std::string_view text) {
  Hosts named;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (auto added = add_line(line, named); !added) {
      return std::unexpected(added.error().during(fmt::format("line {}", number)));
    }
  }
  return finished(named);
}

}  // namespace muster
