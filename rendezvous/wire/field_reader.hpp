// SPDX-License-Identifier: Apache-2.0
// FieldReader: the archive that reads the body of one frame (round_fields.hpp). Used only by
// RoundDecoder. Pure.
#pragma once

#include "base/byte_reader.hpp"
#include "rendezvous/wire/round_fields.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

class FieldReader : public ByteReader {
 public:
  using ByteReader::ByteReader;

  void duration(Duration& value, Duration least = {});
  // `before` is the same field of the previous list entry.
  void name(std::string& value, std::string_view before = {});
  void address(std::string& value, std::string_view before = {});

  void text(std::string& value) { ByteReader::text(value, kMaxTextBytes); }

  void addresses(std::vector<std::string>& values);

  void blob(std::string& value, std::size_t most = kMaxBlobBytes);

  void texts(std::vector<std::string>& values, std::size_t most) {
    ByteReader::texts(values, most, kMaxTextBytes);
  }

  void ports(std::vector<std::uint16_t>& ports);
  void nodes(std::vector<NodeInfo>& nodes);
  void round(RoundPtr& round);

  template <class Item>
  void list(std::vector<Item>& items, std::size_t most) {
    list_by(*this, items, most);
  }

 private:
  void prefixed(std::string& value, std::string_view before, std::size_t most);
};

}  // namespace muster
