// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/field_reader.hpp"

#include <algorithm>

namespace muster {
namespace {

// The minimum size of one node in a list: three names with two lengths each, and the numbers.
constexpr std::size_t kLeastNodeBytes = 24;

bool is_one_of(char c, std::string_view chars) {
  return chars.find(c) != std::string_view::npos;
}

// True if the text can only be a numeric address. This prevents peers from causing DNS lookups. An
// empty text is allowed and means unknown.
bool looks_numeric(std::string_view text) {
  const std::string_view host = text.substr(0, text.find('%'));
  const bool is_v6 = host.find(':') != std::string_view::npos;
  const std::string_view allowed = is_v6 ? "0123456789abcdefABCDEF:." : "0123456789.";
  return (is_v6 || host.size() == text.size()) &&
         std::ranges::all_of(host, [allowed](char c) { return is_one_of(c, allowed); });
}

}  // namespace

void FieldReader::duration(Duration& value, Duration least) {
  std::int64_t count = 0;
  number(count);
  value = Duration(count);
  if (ok() && (value < least || value > kMaxDuration)) {
    fail("a duration out of range: " + std::to_string(count) + " ns");
  }
}

void FieldReader::prefixed(std::string& value, std::string_view before, std::size_t most) {
  std::uint8_t shared = 0;
  std::uint8_t length = 0;
  number(shared);
  number(length);
  if (shared > before.size()) {
    fail("a name whose shared prefix (" + std::to_string(shared) +
         " bytes) is longer than the previous name (" + std::to_string(before.size()) + " bytes)");
    return;
  }
  if (shared + std::size_t{length} > most) {
    fail("a name of " + std::to_string(shared + std::size_t{length}) + " bytes; the limit is " +
         std::to_string(most));
    return;
  }
  const std::string_view rest = take(length);
  if (std::ranges::any_of(rest, is_control)) {
    fail("a name with control characters");
    return;
  }
  value.reserve(shared + rest.size());
  value.assign(before.substr(0, shared));
  value.append(rest);
}

void FieldReader::name(std::string& value, std::string_view before) {
  prefixed(value, before, kMaxNameBytes);
}

void FieldReader::address(std::string& value, std::string_view before) {
  prefixed(value, before, kMaxAddressBytes);
  if (ok() && !looks_numeric(value)) {
    fail("a non-numeric address '" + value + "'");
  }
}

void FieldReader::addresses(std::vector<std::string>& values) {
  const std::size_t count = take_count("addresses", kMaxHostAddresses);
  for (std::size_t i = 0; i < count && ok(); ++i) {
    address(values.emplace_back());
  }
}

void FieldReader::blob(std::string& value, std::size_t most) {
  std::uint32_t length = 0;
  number(length);
  if (length > most) {
    fail("evidence of " + std::to_string(length) + " bytes; the limit is " + std::to_string(most));
    return;
  }
  value = take(length);
}

// Port 0 is never valid for a remote host.
void FieldReader::ports(std::vector<std::uint16_t>& ports) {
  const std::size_t count = take_count("ports", kMaxLeaderPorts);
  for (std::size_t i = 0; i < count && ok(); ++i) {
    number(ports.emplace_back());
    if (ok() && ports.back() == 0) {
      fail("a reserved port 0");
    }
  }
}

void FieldReader::nodes(std::vector<NodeInfo>& nodes) {
  const std::size_t count = take_count("nodes", kMaxMembers);
  if (count * kLeastNodeBytes > left()) {
    fail("a list of " + std::to_string(count) + " nodes in " + std::to_string(left()) + " bytes");
    return;
  }
  nodes.reserve(count);
  const NodeInfo none;
  for (std::size_t i = 0; i < count && ok(); ++i) {
    nodes.emplace_back();
    fields(*this, nodes[i], i == 0 ? none : nodes[i - 1]);
  }
}

void FieldReader::round(RoundPtr& round) {
  auto filled = std::make_shared<Round>();
  fields(*this, *filled);
  round = std::move(filled);
}

}  // namespace muster
