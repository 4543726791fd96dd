// SPDX-License-Identifier: Apache-2.0
// Encodes requests and replies of the TCPStore protocol (PROTOCOL.md) into strings: replies for
// StoreCore, and requests for BlockingStore and the tests. Pure.
#pragma once

#include "base/bytes.hpp"
#include "rendezvous/wire/store_messages.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Appends the length and then the bytes.
inline void append_bytes(std::string& out, std::string_view bytes) {
  append_int(out, static_cast<std::uint64_t>(bytes.size()));
  out.append(bytes);
}

// Appends one request field by field, in the order of its shape:
//   RequestWriter(out, Opcode::add).string("/k").number(1);
class RequestWriter {
 public:
  // Checks that the opcode exists in the dialect.
  RequestWriter(std::string& out, Opcode opcode, Dialect dialect = Dialect::current);

  RequestWriter& string(std::string_view bytes);
  RequestWriter& number(std::int64_t value);
  RequestWriter& word(std::uint32_t value);
  // Appends the number of keys and then each key.
  RequestWriter& keys(const std::vector<std::string>& keys);

 private:
  std::string& out_;
};

// Appends VALIDATE and PING, the first requests of a current client. The server replies with the
// nonce.
void append_greeting(std::string& out, std::uint32_t nonce);

}  // namespace muster
