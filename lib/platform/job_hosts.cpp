// SPDX-License-Identifier: Apache-2.0
#include "platform/job_hosts.hpp"

#include "base/text.hpp"
#include "platform/host_list.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

namespace muster {
namespace {

using Hosts = std::vector<JobHost>;

constexpr std::int64_t kPortMax = 65'535;

std::unexpected<Error> wrong_host(std::string_view entry, std::string_view why) {
  return failure(Errc::usage, fmt::format("{}: {}", shell_quoted(entry), why));
}

bool consists_of(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) != 0 || more.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// Rejects characters that a shell could interpret, and names that a remote shell could read as an
// option.
bool is_host(std::string_view name) {
  return !name.empty() && name.front() != '-' && consists_of(name, "._-:%");
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool are_devices(std::string_view text) {
  return std::ranges::all_of(split(text, ','), is_number);
}

bool is_user(std::string_view name) {
  return !name.empty() && name.front() != '-' && consists_of(name, "._-+");
}

// An entry split into its parts; `names` may be a range.
struct Parts {
  std::string_view user;
  std::string_view names;
  std::string_view slots;
  std::string_view devices;
  bool has_user = false;
  bool has_slots = false;
  bool has_devices = false;
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

// The position of the '@' that follows the number of workers, as in "a:2@0,1". The '@' after a user
// name comes earlier.
std::size_t at_of_devices(std::string_view entry) {
  const auto at = entry.rfind('@');
  const auto colon = entry.substr(0, at).rfind(':');
  const bool follows_slots = at != std::string_view::npos && colon != std::string_view::npos &&
                             is_number(entry.substr(colon + 1, at - colon - 1));
  return follows_slots ? at : std::string_view::npos;
}

// "[::1]:4": brackets around text with colons mark an address; other brackets mark a range.
Parts cut(std::string_view entry) {
  Parts parts;
  if (const auto at = at_of_devices(entry); at != std::string_view::npos) {
    parts.has_devices = true;
    parts.devices = entry.substr(at + 1);
    entry = entry.substr(0, at);
  }
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
    return wrong_host(entry,
                      fmt::format("the number of workers after ':' must be 1 to {}", kSlotsMax));
  }
  return static_cast<int>(*number);
}

Result<std::vector<std::string>> names_of(const Parts& parts, std::string_view entry) {
  if (parts.is_address) {
    return std::vector<std::string>{std::string(parts.names)};
  }
  if (parts.names.empty() ||
      std::ranges::any_of(parts.names, [](unsigned char c) { return std::isspace(c) != 0; })) {
    return wrong_host(entry, "not a host name");
  }
  return expand_host_list(parts.names);
}

Result<void> add_entry(std::string_view entry, Hosts& out) {
  const Parts parts = cut(entry);
  const auto slots = slots_of(parts, entry);
  MUSTER_RETURN_IF_ERROR(slots);
  if (parts.has_devices && !are_devices(parts.devices)) {
    return wrong_host(entry, "GPUs must be numbers, such as a:2@0,1;b:2@2,3");
  }
  const auto names = names_of(parts, entry);
  MUSTER_RETURN_IF_ERROR(names);
  if (names->size() > kJobHostsMax - out.size()) {
    return wrong_host(entry, fmt::format("more than {} hosts", kJobHostsMax));
  }
  for (const std::string& name : *names) {
    if (!is_host(name) || (parts.has_user && !is_user(parts.user))) {
      return wrong_host(entry, "not a host name");
    }
    out.push_back({(parts.has_user ? std::string(parts.user) + "@" : "") + name,
                   *slots,
                   std::string(parts.devices)});
  }
  return {};
}

// "a:2@0": if an entry lists GPUs, commas separate GPUs instead of hosts.
bool has_devices(std::string_view text) {
  return std::ranges::any_of(split(text, ';'), [](const std::string& entry) {
    return at_of_devices(entry) != std::string_view::npos;
  });
}

// Splits at commas outside brackets, or at semicolons if a host has a GPU list.
std::vector<std::string_view> entries(std::string_view text) {
  const char between = has_devices(text) ? ';' : ',';
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == between && depth == 0)) {
      out.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else {
      depth += text[i] == '[' ? 1 : 0;
      depth -= text[i] == ']' && depth > 0 ? 1 : 0;
    }
  }
  return out;
}

// A host that is listed n times has n slots, as in a PBS node file; it keeps its first position.
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

// The user and port for logging in to a host in the file.
struct Login {
  std::string user;
  std::string port;
};

Result<void> take_slots(std::string_view word, std::string_view value, JobHost& host) {
  const auto number = parse_int(value);
  if (!number || *number < 1 || *number > kSlotsMax) {
    return wrong_host(word, fmt::format("the number of workers must be 1 to {}", kSlotsMax));
  }
  host.slots = static_cast<int>(*number);
  return {};
}

bool is_port(std::string_view text) {
  const auto port = is_number(text) ? parse_int(text) : std::nullopt;
  return port && *port > 0 && *port <= kPortMax;
}

// Parses a keyword such as "slots=4"; accepts mpirun's max_slots and ignores it.
Result<void> take_word(std::string_view word, JobHost& host, Login& login) {
  const auto equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = word.substr(std::min(equals + 1, word.size()));
  if (name == "max_slots" || name == "max-slots") {
    return {};
  }
  if (name == "slots") {
    return take_slots(word, value, host);
  }
  if (name == "devices" && are_devices(value)) {
    host.devices = value;
  } else if (name == "user" && is_user(value)) {
    login.user = value;
  } else if (name == "port" && is_port(value)) {
    login.port = value;
  } else {
    return wrong_host(word, "expected slots=N, devices=0,1, user=NAME or port=N after a host");
  }
  return {};
}

// ssh accepts a port in its target only in the form of an ssh:// URL.
Result<void> add_login(const Login& login, JobHost& host) {
  if (!login.user.empty()) {
    if (host.target.contains('@')) {
      return wrong_host(host.target, "already has a user. Omit user=");
    }
    host.target = login.user + "@" + host.target;
  }
  if (!login.port.empty()) {
    const std::string name = host.name();
    const std::string user = host.target.substr(0, host.target.size() - name.size());
    host.target = fmt::format(
        "ssh://{}{}:{}", user, name.contains(':') ? "[" + name + "]" : name, login.port);
  }
  return {};
}

Result<void> add_line(std::string_view line, Hosts& out) {
  std::string blanks(line.substr(0, line.find('#')));
  std::ranges::replace_if(
      blanks, [](unsigned char c) { return std::isspace(c) != 0; }, ' ');
  auto words = split(blanks, ' ');
  std::erase(words, "");
  if (words.empty()) {
    return {};
  }
  const std::size_t first = out.size();
  if (auto added = add_entry(words.front(), out); !added) {
    return added;
  }
  for (std::size_t at = first; at < out.size(); ++at) {
    Login login;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (auto taken = take_word(words[i], out[at], login); !taken) {
        return taken;
      }
    }
    if (auto added = add_login(login, out[at]); !added) {
      return added;
    }
  }
  return {};
}

Result<Hosts> finished(const Hosts& named) {
  if (named.empty()) {
    return failure(Errc::usage, "no host is listed");
  }
  return merged(named);
}

}  // namespace

std::string JobHost::name() const {
  std::string_view rest(target);
  if (has_port()) {
    rest.remove_prefix(std::string_view("ssh://").size());
    rest = rest.substr(0, rest.rfind(':'));
  }
  rest = rest.substr(rest.rfind('@') + 1);
  const bool brackets = rest.starts_with('[') && rest.ends_with(']');
  return std::string(brackets ? rest.substr(1, rest.size() - 2) : rest);
}

Result<Hosts> parse_job_hosts(std::string_view text) {
  Hosts named;
  for (const std::string_view entry : entries(text)) {
    MUSTER_RETURN_IF_ERROR(add_entry(entry, named));
  }
  return finished(named);
}

Result<Hosts> parse_host_file(std::string_view text) {
  Hosts named;
  int number = 0;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // written by Windows editors
  text.remove_prefix(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (auto added = add_line(line, named); !added) {
      return std::unexpected(added.error().during(fmt::format("line {}", number)));
    }
  }
  return finished(named);
}

}  // namespace muster
