// SPDX-License-Identifier: Apache-2.0
#include "platform/host_list.hpp"

#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kDigitsMax = 18;  // always fits in an int64
constexpr std::string_view kSeparators = ", \t\n";

using Names = std::vector<std::string>;

std::unexpected<Error> wrong_list(std::string_view entry, std::string_view why) {
  return failure(Errc::usage, fmt::format("host list: {}: {}", shell_quoted(entry), why));
}

std::optional<std::int64_t> number(std::string_view digits) {
  std::int64_t out = 0;
  const bool plain = !digits.empty() && digits.size() <= kDigitsMax &&
                     std::ranges::all_of(digits, [](char c) { return '0' <= c && c <= '9'; });
  if (!plain) {
    return std::nullopt;
  }
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}

// Expands "1-3" or "7" to numbers as text, padded to the width of the lower bound.
Result<void> expand_range(std::string_view range, std::string_view entry, Names& out) {
  const auto dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const auto first = number(low);
  const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
  if (!first || !last || *last < *first) {
    return wrong_list(entry, fmt::format("'{}' is not a range of numbers such as 01-16", range));
  }
  if (static_cast<std::uint64_t>(*last - *first) >= kHostsMax - out.size()) {
    return wrong_list(entry, fmt::format("more than {} names", kHostsMax));
  }
  for (std::int64_t one = *first; one <= *last; ++one) {
    out.push_back(fmt::format("{:0{}}", one, low.size()));
  }
  return {};
}

Result<Names> expand_ranges(std::string_view ranges, std::string_view entry) {
  Names out;
  for (const std::string& range : split(ranges, ',')) {
    MUSTER_RETURN_IF_ERROR(expand_range(range, entry, out));
  }
  return out;
}

// "rack[0-1]n[1-2]-int" split into parts: the text before each bracket, the numbers in it, and the
// suffix.
struct Entry {
  std::vector<std::pair<std::string_view, Names>> groups;
  std::string_view suffix;
};

std::size_t names_in(const Entry& entry) {
  std::size_t count = 1;
  for (const auto& [text, numbers] : entry.groups) {
    count = std::min(kHostsMax + 1, count * numbers.size());
  }
  return count;
}

// Slurm's order: the last number varies fastest, followed by the first, the second and so on.
Names names_of(const Entry& entry) {
  Names heads{""};
  for (const auto& [text, numbers] : entry.groups) {
    const bool is_last = &text == &entry.groups.back().first;
    Names longer;
    longer.reserve(heads.size() * numbers.size());
    for (std::size_t i = 0; i < heads.size() * numbers.size(); ++i) {
      const std::size_t head = is_last ? i / numbers.size() : i % heads.size();
      const std::size_t number = is_last ? i % numbers.size() : i / heads.size();
      longer.push_back(heads[head] + std::string(text) + numbers[number]);
    }
    heads = std::move(longer);
  }
  std::ranges::for_each(heads, [&](std::string& name) { name += entry.suffix; });
  return heads;
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text,
                             [](unsigned char c) { return std::isgraph(c) != 0 && c != ']'; });
}

Result<Names> expand_entry(std::string_view text) {
  Entry entry;
  std::string_view rest = text;
  for (auto open = rest.find('['); open != std::string_view::npos; open = rest.find('[')) {
    const auto close = rest.find(']', open);
    if (close == std::string_view::npos) {
      return wrong_list(text, "unclosed bracket");
    }
    auto numbers = expand_ranges(rest.substr(open + 1, close - open - 1), text);
    if (!numbers) {
      return numbers;
    }
    entry.groups.emplace_back(rest.substr(0, open), std::move(*numbers));
    rest = rest.substr(close + 1);
  }
  entry.suffix = rest;
  const bool plain =
      is_plain(entry.suffix) &&
      std::ranges::all_of(entry.groups, [](const auto& group) { return is_plain(group.first); });
  if (!plain) {
    return wrong_list(text, "not a host name");
  }
  if (names_in(entry) > kHostsMax) {
    return wrong_list(text, fmt::format("more than {} names", kHostsMax));
  }
  return names_of(entry);
}

// The text up to the next separator outside brackets.
std::string_view first_entry(std::string_view text) {
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    inside = text[i] == '[' || (inside && text[i] != ']');
    if (!inside && kSeparators.find(text[i]) != std::string_view::npos) {
      return text.substr(0, i);
    }
  }
  return text;
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  Names out;
  while (!text.empty()) {
    const std::string_view entry = first_entry(text);
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    if (entry.empty()) {
      continue;
    }
    auto names = expand_entry(entry);
    if (!names) {
      return names;
    }
    if (names->size() > kHostsMax - out.size()) {
      return wrong_list(entry, fmt::format("more than {} names in total", kHostsMax));
    }
    std::ranges::move(*names, std::back_inserter(out));
  }
  return out.empty() ? wrong_list("", "contains no name") : Result<Names>(std::move(out));
}

Result<std::vector<int>> expand_repetitions(std::string_view text) {
  std::vector<int> out;
  for (const std::string& part : split(text, ',')) {
    const auto open = part.find("(x");
    const bool repeated = open != std::string::npos && part.ends_with(')');
    const auto value = number(std::string_view(part).substr(0, repeated ? open : part.size()));
    const auto times =
        repeated ? number(std::string_view(part).substr(open + 2, part.size() - open - 3)) : 1;
    if (!value || !times || *value > static_cast<std::int64_t>(kHostsMax) ||
        *times > static_cast<std::int64_t>(kHostsMax - out.size())) {
      return failure(Errc::usage,
                     fmt::format("{} is not a number list such as '2(x3),1'", shell_quoted(text)));
    }
    out.insert(out.end(), static_cast<std::size_t>(*times), static_cast<int>(*value));
  }
  return out;
}

}  // namespace muster
