// SPDX-License-Identifier: Apache-2.0
// The requests and one-byte replies of the TCPStore protocol as values (PROTOCOL.md, "Requests"). A
// Request contains views into the bytes from which it was decoded, and is valid only as long as
// those bytes. Created by StoreDecoder, consumed by StoreCore. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {

// The wire numbers of PyTorch 2.1 and later. watch_key exists only in the older dialect, with
// number 7; the number here is internal.
enum class Opcode : std::uint8_t {
  validate = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  get_num_keys = 7,
  delete_key = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_len = 16,
  list_keys = 17,
  barrier = 18,
  watch_key = 19,
};

// Selects the numbering of a session's opcodes. `older` means PyTorch 2.0 and earlier.
enum class Dialect : std::uint8_t { unknown, older, current };

inline constexpr std::uint32_t kValidateMagic = 0x3C85F7CE;

// One-byte replies.
inline constexpr std::uint8_t kCheckReady = 0;
inline constexpr std::uint8_t kCheckNotReady = 1;
inline constexpr std::uint8_t kStopWaiting = 0;
inline constexpr std::uint8_t kWaitCanceled = 1;

// Notices to a watcher (older dialect only).
enum class WatchNotice : std::uint8_t { updated = 0, created = 1, deleted = 2, registered = 3 };

struct Request {
  Opcode opcode = Opcode::validate;
  std::string_view key = {};
  std::string_view value = {};    // COMPARE_SET: the expected value
  std::string_view desired = {};  // COMPARE_SET only
  std::int64_t number = 0;  // ADD: delta; BARRIER: world size; PING, VALIDATE: their 32-bit word
  std::uint64_t count = 0;  // CHECK, WAIT, MULTI_GET: keys; MULTI_SET: pairs
  std::string_view items = {};  // the keys or pairs, still encoded; read with take_item
};

// Removes the first length-prefixed string from `items`, which the decoder has already validated.
[[nodiscard]] std::string_view take_item(std::string_view& items);

// The fields after an opcode, in this order: the number of items, if `counted`; the strings (once
// per item, if `counted`), of which the first is a key and the others are values; a trailing
// integer.
struct RequestShape {
  bool counted = false;
  std::uint8_t strings = 0;
  std::uint8_t trailer_bytes = 0;
};

[[nodiscard]] RequestShape shape_of(Opcode opcode);

// The opcode for `byte` in a dialect; nullopt if the number is not valid there.
[[nodiscard]] std::optional<Opcode> opcode_from_wire(std::uint8_t byte, Dialect dialect);

// The inverse of opcode_from_wire, for code that writes requests. nullopt if the dialect lacks the
// request.
[[nodiscard]] std::optional<std::uint8_t> opcode_to_wire(Opcode opcode, Dialect dialect);

// The name for log lines and errors, for example "MULTI_GET".
[[nodiscard]] std::string_view name_of(Opcode opcode);

}  // namespace muster
