// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/store_encoder.hpp"

#include "base/check.hpp"

namespace muster {

RequestWriter::RequestWriter(std::string& out, Opcode opcode, Dialect dialect) : out_(out) {
  const auto byte = opcode_to_wire(opcode, dialect);
  MUSTER_CHECK(byte.has_value());
  append_int(out_, *byte);
}

RequestWriter& RequestWriter::string(std::string_view bytes) {
  append_bytes(out_, bytes);
  return *this;
}

RequestWriter& RequestWriter::number(std::int64_t value) {
  append_int(out_, value);
  return *this;
}

RequestWriter& RequestWriter::word(std::uint32_t value) {
  append_int(out_, value);
  return *this;
}

RequestWriter& RequestWriter::keys(const std::vector<std::string>& keys) {
  append_int(out_, static_cast<std::uint64_t>(keys.size()));
  for (const std::string& key : keys) {
    append_bytes(out_, key);
  }
  return *this;
}

void append_greeting(std::string& out, std::uint32_t nonce) {
  RequestWriter(out, Opcode::validate).word(kValidateMagic);
  RequestWriter(out, Opcode::ping).word(nonce);
}

}  // namespace muster
