// SPDX-License-Identifier: Apache-2.0
// StoreDecoder: bytes of one session → requests (PROTOCOL.md, "Requests"). Incremental: however the
// bytes are split, the same requests come out. Copies nothing; one small value for each session.
//
// The caller 1. hands over all bytes that it has, beginning with the first undecoded one; 2. on
// complete uses the request, drops `consumed` bytes and calls again; 3. on need_more calls again
// with the same bytes and more; 4. on broken closes the session with fault() as the reason.
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

  // After broken: what was wrong, on what, and the limit.
  [[nodiscard]] std::string fault() const;

  // Whether the first bytes were those of a client of this protocol, so that its faults are worth
  // telling to somebody; rubbish from a port scanner is not.
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

  // How far a counted request has been read; 0: not begun. Without it a WAIT for many keys that
  // trickles in would be read from its start for each of its bytes.
  std::size_t position_ = 0;
  std::uint64_t strings_left_ = 0;
  std::uint64_t fault_value_ = 0;
  Dialect dialect_ = Dialect::unknown;
  Fault fault_ = Fault::none;
  Opcode opcode_ = Opcode::validate;
};

}  // namespace muster
