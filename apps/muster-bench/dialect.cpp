// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/dialect.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

namespace muster::bench {
namespace {

constexpr char kSet = 1;
constexpr char kGet = 3;
constexpr char kAdd = 4;
constexpr char kCheck = 5;
constexpr char kPing = 13;
constexpr std::uint32_t kMagic = 0x3C85F7CE;
constexpr std::uint32_t kNonce = 0x42454E43;

template <class Number>
std::string raw(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::string field(std::string_view bytes) {
  return raw(std::uint64_t{bytes.size()}) + std::string(bytes);
}

std::string set_request(std::size_t key, std::string_view value) {
  return kSet + field(key_of(key)) + field(value);
}

std::string check_request(std::size_t key) {
  return kCheck + raw(std::uint64_t{1}) + field(key_of(key));
}

std::string resp(std::initializer_list<std::string_view> parts) {
  std::string text = fmt::format("*{}\r\n", parts.size());
  for (const auto part : parts) {
    text += fmt::format("${}\r\n{}\r\n", part.size(), part);
  }
  return text;
}

// The counter starts at a ten-digit number, so that redis answers keep their length over millions
// of additions.
std::string prepared_value(Operation operation, std::size_t key) {
  return operation == Operation::add ? "1000000000" : value_of(key);
}

Exchange tcpstore_exchange(Operation operation, std::size_t key) {
  if (operation == Operation::get) {
    return {kGet + field(key_of(key)), field(value_of(key)), true};
  }
  if (operation == Operation::set) {
    return {set_request(key, value_of(key)) + check_request(key), std::string(1, '\0'), true};
  }
  return {kAdd + field(key_of(key)) + raw(std::int64_t{1}), std::string(8, '?'), false};
}

Exchange redis_exchange(Operation operation, std::size_t key) {
  const auto name = key_of(key);
  if (operation == Operation::get) {
    return {resp({"GET", name}), fmt::format("$16\r\n{}\r\n", value_of(key)), true};
  }
  if (operation == Operation::set) {
    return {resp({"SET", name, value_of(key)}), "+OK\r\n", true};
  }
  return {resp({"INCR", name}), ":1000000001\r\n", false};
}

Exchange as_echo(const Exchange& of) {
  return {std::string(of.request.size(), 'q'), std::string(of.reply.size(), 'a'), true};
}

}  // namespace

std::optional<Protocol> parse_protocol(std::string_view word) {
  if (word == "tcpstore") {
    return Protocol::tcpstore;
  }
  if (word == "redis") {
    return Protocol::redis;
  }
  return word == "echo" ? std::optional(Protocol::echo) : std::nullopt;
}

std::optional<Operation> parse_operation(std::string_view word) {
  if (word == "get") {
    return Operation::get;
  }
  if (word == "set") {
    return Operation::set;
  }
  return word == "add" ? std::optional(Operation::add) : std::nullopt;
}

std::string_view name_of(Operation operation) {
  if (operation == Operation::get) {
    return "get";
  }
  return operation == Operation::set ? "set" : "add";
}

std::string key_of(std::size_t number) {
  return fmt::format("/bench/{:05}", number % 100000);
}

std::string value_of(std::size_t number) {
  return fmt::format("value-{:010}", number);
}

Exchange greeting(Protocol protocol, const Exchange& announced) {
  if (protocol == Protocol::tcpstore) {
    const auto ping = kPing + raw(kNonce);
    return {std::string(1, '\0') + raw(kMagic) + ping, raw(kNonce), true};
  }
  if (protocol == Protocol::redis) {
    return {resp({"PING"}), "+PONG\r\n", true};
  }
  const auto sizes = raw(static_cast<std::uint32_t>(announced.request.size())) +
                     raw(static_cast<std::uint32_t>(announced.reply.size()));
  return {sizes, "e", true};
}

Exchange prepare(Protocol protocol, Operation operation, std::size_t key) {
  const auto value = prepared_value(operation, key);
  if (protocol == Protocol::tcpstore) {
    return {set_request(key, value) + check_request(key), std::string(1, '\0'), true};
  }
  if (protocol == Protocol::redis) {
    return {resp({"SET", key_of(key), value}), "+OK\r\n", true};
  }
  return exchange(protocol, operation, key);
}

Exchange exchange(Protocol protocol, Operation operation, std::size_t key) {
  if (protocol == Protocol::redis) {
    return redis_exchange(operation, key);
  }
  const auto plain = tcpstore_exchange(operation, key);
  return protocol == Protocol::tcpstore ? plain : as_echo(plain);
}

Exchange streamed_set(Protocol protocol, std::size_t key) {
  if (protocol == Protocol::redis) {
    return redis_exchange(Operation::set, key);
  }
  return {set_request(key, value_of(key)), "", true};
}

}  // namespace muster::bench
