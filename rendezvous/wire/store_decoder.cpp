// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/store_decoder.hpp"

#include "base/bytes.hpp"
#include "rendezvous/wire/limits.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);

std::string printable(std::uint64_t byte) {
  const auto c = static_cast<char>(byte);
  const bool visible = byte >= 0x20 && byte < 0x7f;
  return std::to_string(byte) + (visible ? std::string(" ('") + c + "')" : std::string());
}

std::string over(std::string_view what, std::uint64_t value, std::uint64_t limit) {
  return std::string(what) + " of " + std::to_string(value) + " bytes; the limit is " +
         std::to_string(limit);
}

std::int64_t load_number(std::string_view bytes, std::size_t size) {
  return size == sizeof(std::uint32_t) ? std::int64_t{load_int<std::uint32_t>(bytes)}
                                       : load_int<std::int64_t>(bytes);
}

}  // namespace

StoreDecoder::Status StoreDecoder::next(std::string_view input,
                                        Request& request,
                                        std::size_t& consumed) {
  if (fault_ != Fault::none) {
    return Status::broken;
  }
  if (input.empty()) {
    return Status::need_more;
  }
  if (dialect_ == Dialect::unknown) [[unlikely]] {
    if (const Status status = settle_dialect(input); status != Status::complete) {
      return status;
    }
  }
  const auto byte = static_cast<std::uint8_t>(input.front());
  const auto opcode = opcode_from_wire(byte, dialect_);
  if (!opcode) {
    return break_with(Fault::opcode, byte);
  }
  opcode_ = *opcode;
  request.opcode = opcode_;
  const RequestShape shape = shape_of(opcode_);
  return shape.counted ? decode_counted(input, shape, request, consumed)
                       : decode_plain(input, shape, request, consumed);
}

// A current client starts with VALIDATE, 00 CE F7 85 3C. An older client that starts with SET also
// sends 00 first, but the key length that follows can never be 0x3C85F7CE.
StoreDecoder::Status StoreDecoder::settle_dialect(std::string_view input) {
  constexpr std::string_view kGreeting("\x00\xCE\xF7\x85\x3C", 5);
  const std::size_t seen = std::min(input.size(), kGreeting.size());
  if (input.substr(0, seen) == kGreeting.substr(0, seen)) {
    if (seen < kGreeting.size()) {
      return Status::need_more;
    }
    dialect_ = Dialect::current;
    return Status::complete;
  }
  const auto first = static_cast<std::uint8_t>(input.front());
  if (!opcode_from_wire(first, Dialect::older)) {
    return break_with(Fault::not_a_client, first);
  }
  dialect_ = Dialect::older;
  return Status::complete;
}

StoreDecoder::Status StoreDecoder::take_string(std::string_view input,
                                               std::size_t& position,
                                               bool is_key,
                                               std::string_view& out) {
  if (input.size() - position < kLengthBytes) {
    return Status::need_more;
  }
  const auto length = load_int<std::uint64_t>(input.substr(position));
  if (length > (is_key ? kMaxKeyBytes : kMaxValueBytes)) {
    return break_with(is_key ? Fault::key : Fault::value, length);
  }
  if (input.size() - position - kLengthBytes < length) {
    return Status::need_more;
  }
  out = input.substr(position + kLengthBytes, length);
  position += kLengthBytes + length;
  return Status::complete;
}

StoreDecoder::Status StoreDecoder::decode_plain(std::string_view input,
                                                const RequestShape& shape,
                                                Request& request,
                                                std::size_t& consumed) {
  const std::array fields{&request.key, &request.value, &request.desired};
  std::size_t position = 1;
  for (std::size_t i = 0; i < shape.strings && i < fields.size(); ++i) {
    const Status status = take_string(input, position, i == 0, *fields[i]);
    if (status != Status::complete) {
      return status;
    }
  }
  if (input.size() - position < shape.trailer_bytes) {
    return Status::need_more;
  }
  if (shape.trailer_bytes > 0) {
    request.number = load_number(input.substr(position), shape.trailer_bytes);
    position += shape.trailer_bytes;
  }
  if (opcode_ == Opcode::validate && request.number != std::int64_t{kValidateMagic}) {
    return break_with(Fault::magic, static_cast<std::uint64_t>(request.number));
  }
  consumed = position;
  return Status::complete;
}

StoreDecoder::Status StoreDecoder::decode_counted(std::string_view input,
                                                  const RequestShape& shape,
                                                  Request& request,
                                                  std::size_t& consumed) {
  constexpr std::size_t kItemsAt = 1 + kLengthBytes;
  if (input.size() < kItemsAt) {
    return Status::need_more;
  }
  const auto count = load_int<std::uint64_t>(input.substr(1));
  if (position_ == 0) {
    if (count > kMaxKeyCount) {
      return break_with(Fault::count, count);
    }
    position_ = kItemsAt;
    strings_left_ = count * shape.strings;
  }
  std::string_view item;
  while (strings_left_ > 0) {
    const bool is_key = shape.strings == 1 || strings_left_ % 2 == 0;
    const Status status = take_string(input, position_, is_key, item);
    if (status != Status::complete) {
      return status;
    }
    if (position_ > kMaxRequestBytes) {
      return break_with(Fault::request, position_);
    }
    --strings_left_;
  }
  request.count = count;
  request.items = input.substr(kItemsAt, position_ - kItemsAt);
  consumed = std::exchange(position_, 0);
  return Status::complete;
}

StoreDecoder::Status StoreDecoder::break_with(Fault fault, std::uint64_t value) {
  fault_ = fault;
  fault_value_ = value;
  return Status::broken;
}

std::string StoreDecoder::fault() const {
  const std::string name(name_of(opcode_));
  switch (fault_) {
    case Fault::none:
      return {};
    case Fault::not_a_client:
      return "not a store client: its first byte is " + printable(fault_value_);
    case Fault::opcode:
      return "unknown request number " + printable(fault_value_);
    case Fault::key:
      return over(name + " with a key", fault_value_, kMaxKeyBytes);
    case Fault::value:
      return over(name + " with a value", fault_value_, kMaxValueBytes);
    case Fault::count:
      return name + " with " + std::to_string(fault_value_) + " keys; the limit is " +
             std::to_string(kMaxKeyCount);
    case Fault::request:
      return over("a " + name + " request", fault_value_, kMaxRequestBytes);
    case Fault::magic:
      return "VALIDATE with a wrong magic number";
  }
  return {};
}

}  // namespace muster
