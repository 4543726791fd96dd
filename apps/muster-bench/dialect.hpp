// SPDX-License-Identifier: Apache-2.0
// The bytes of one request in each protocol that the load generator speaks, and how many bytes
// answer it. The echo dialect moves as many bytes as TCPStore's, without any meaning: it is the
// floor below every server. Pure; called by load, storm and stream. Values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster::bench {

enum class Protocol { tcpstore, redis, echo };
enum class Operation { get, set, add };

[[nodiscard]] std::optional<Protocol> parse_protocol(std::string_view word);
[[nodiscard]] std::optional<Operation> parse_operation(std::string_view word);
[[nodiscard]] std::string_view name_of(Operation operation);

// What is sent, and the exact bytes that answer it. A counter's answer has a known length only:
// then `reply` is filled with any bytes and `exact` is false.
struct Exchange {
  std::string request;
  std::string reply;
  bool exact = true;
};

// Keys and values of the same lengths in all protocols: "/bench/00017", 16 bytes.
[[nodiscard]] std::string key_of(std::size_t number);
[[nodiscard]] std::string value_of(std::size_t number);

// The first exchange on a connection: VALIDATE and PING, PING, or the echo's announcement of how
// many bytes each `request` has and how many bytes answer it.
[[nodiscard]] Exchange greeting(Protocol protocol, const Exchange& announced);

// Makes the key ready for `operation`; ends with an answer, so that its arrival is known.
[[nodiscard]] Exchange prepare(Protocol protocol, Operation operation, std::size_t key);

// One measured request. A SET has no answer in TCPStore: there it is SET and CHECK in one segment.
[[nodiscard]] Exchange exchange(Protocol protocol, Operation operation, std::size_t key);

// A SET as it streams: without an answer in TCPStore, and with one in redis. Not for the echo.
[[nodiscard]] Exchange streamed_set(Protocol protocol, std::size_t key);

}  // namespace muster::bench
