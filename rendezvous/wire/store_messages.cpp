// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/store_messages.hpp"

#include "base/bytes.hpp"

#include <algorithm>
#include <array>

namespace muster {
namespace {

struct OpcodeRow {
  std::string_view name;
  RequestShape shape;
};

// In the order of the wire numbers.
constexpr std::array<OpcodeRow, 20> kOpcodes{{
    {"VALIDATE", {false, 0, 4}},    {"SET", {false, 2, 0}},        {"COMPARE_SET", {false, 3, 0}},
    {"GET", {false, 1, 0}},         {"ADD", {false, 1, 8}},        {"CHECK", {true, 1, 0}},
    {"WAIT", {true, 1, 0}},         {"GETNUMKEYS", {false, 0, 0}}, {"DELETE_KEY", {false, 1, 0}},
    {"APPEND", {false, 2, 0}},      {"MULTI_GET", {true, 1, 0}},   {"MULTI_SET", {true, 2, 0}},
    {"CANCEL_WAIT", {false, 0, 0}}, {"PING", {false, 0, 4}},       {"QUEUE_PUSH", {false, 2, 0}},
    {"QUEUE_POP", {false, 1, 0}},   {"QUEUE_LEN", {false, 1, 0}},  {"LIST_KEYS", {false, 0, 0}},
    {"BARRIER", {false, 1, 8}},     {"WATCH_KEY", {false, 1, 0}},
}};

constexpr std::array<Opcode, 9> kOlder{Opcode::set,
                                       Opcode::compare_set,
                                       Opcode::get,
                                       Opcode::add,
                                       Opcode::check,
                                       Opcode::wait,
                                       Opcode::get_num_keys,
                                       Opcode::watch_key,
                                       Opcode::delete_key};

}  // namespace

std::string_view take_item(std::string_view& items) {
  const auto length = load_int<std::uint64_t>(items);
  const std::string_view item = items.substr(sizeof(length), length);
  items.remove_prefix(sizeof(length) + item.size());
  return item;
}

RequestShape shape_of(Opcode opcode) {
  return kOpcodes[static_cast<std::size_t>(opcode)].shape;
}

std::optional<Opcode> opcode_from_wire(std::uint8_t byte, Dialect dialect) {
  if (dialect == Dialect::older) {
    return byte < kOlder.size() ? std::optional(kOlder[byte]) : std::nullopt;
  }
  return byte <= static_cast<std::uint8_t>(Opcode::barrier)
             ? std::optional(static_cast<Opcode>(byte))
             : std::nullopt;
}

std::optional<std::uint8_t> opcode_to_wire(Opcode opcode, Dialect dialect) {
  if (dialect == Dialect::older) {
    const auto at = std::ranges::find(kOlder, opcode);
    return at == kOlder.end() ? std::nullopt
                              : std::optional(static_cast<std::uint8_t>(at - kOlder.begin()));
  }
  return opcode <= Opcode::barrier ? std::optional(static_cast<std::uint8_t>(opcode))
                                   : std::nullopt;
}

std::string_view name_of(Opcode opcode) {
  return kOpcodes[static_cast<std::size_t>(opcode)].name;
}

}  // namespace muster
