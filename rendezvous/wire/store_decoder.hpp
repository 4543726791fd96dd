// SPDX-License-Identifier: Apache-2.0
// StoreDecoder: decodes the bytes of one session into requests (PROTOCOL.md, "Requests"). It is
// incremental: the requests do not depend on how the bytes are split. It copies nothing. Each
// session has its own decoder, a small value.
//
// The caller passes all bytes that are not decoded yet. The next step depends on the status:
// - complete: use the request, drop `consumed` bytes and call again.
// - need_more: call again with the same bytes and more.
// - broken: close the session with fault() as the reason.
#pragma once

#include "rendezvous/wire/store_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

class StoreDecoder {
 public:
  enum class Status : std::uint8_t { complete, need_more, broken };

  [[nodiscard]] Status next(std::string_view input, Request& request, std::size_t& consumed);

  [[nodiscard]] Dialect dialect() const { return dialect_; }

  // After `broken`: describes the error, with the request and the limit.
  [[nodiscard]] std::string fault() const;

  // True if the first bytes are those of a client of this protocol. Errors of other peers, such as
  // port scanners, are not worth logging.
  [[nodiscard]] bool greeted() const { return dialect_ != Dialect::unknown; }

 private:
  enum class Fault : std::uint8_t { none, not_a_client, opcode, key, value, count, request, magic };

  [[nodiscard]] Status settle_dialect(std::string_view input);
  [[nodiscard]] Status decode_plain(std::string_view input,
                                    const RequestShape& shape,
                                    Request& request,
                                    std::size_t& consumed);
  [[nodiscard]] Status decode_counted(std::string_view input,
                                      const RequestShape& shape,
                                      Request& request,
                                      std::size_t& consumed);
  [[nodiscard]] Status take_string(std::string_view input,
                                   std::size_t& position,
                                   bool is_key,
                                   std::string_view& out);
  [[nodiscard]] Status break_with(Fault fault, std::uint64_t value);

  // The number of bytes of a counted request that are decoded so far; 0 if not started. Without
  // this position, a WAIT for many keys that arrives slowly would be decoded from its start for
  // each byte.
  std::size_t position_ = 0;
  std::uint64_t strings_left_ = 0;
  std::uint64_t fault_value_ = 0;
  Dialect dialect_ = Dialect::unknown;
  Fault fault_ = Fault::none;
  Opcode opcode_ = Opcode::validate;
};

}  // namespace muster
