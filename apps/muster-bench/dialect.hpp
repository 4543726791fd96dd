// SPDX-License-Identifier: Apache-2.0
// The bytes of one request in each protocol of the load generator, and the length of its answer.
// The echo protocol transfers the same number of bytes as TCPStore's but does not parse them. It
// is the lower bound for every server. Pure; called by load, storm and stream. Values.
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

// A request and the exact bytes of its answer. For a counter, only the length of the answer is
// known; then `reply` has arbitrary bytes and `exact` is false.
struct Exchange {
  std::string request;
  std::string reply;
  bool exact = true;
};

// Keys and values have the same lengths in all protocols: "/bench/00017", 16 bytes.
[[nodiscard]] std::string key_of(std::size_t number);
[[nodiscard]] std::string value_of(std::size_t number);

// The first exchange on a connection: VALIDATE and PING for TCPStore; PING for redis; for the
// echo, the lengths of each request and answer.
[[nodiscard]] Exchange greeting(Protocol protocol, const Exchange& announced);

// Prepares the key for `operation`. The last request has an answer, which confirms completion.
[[nodiscard]] Exchange prepare(Protocol protocol, Operation operation, std::size_t key);

// One measured request. In TCPStore, SET has no answer, so SET and CHECK are sent in one segment.
[[nodiscard]] Exchange exchange(Protocol protocol, Operation operation, std::size_t key);

// A streamed SET: has no answer in TCPStore, but has one in redis. Not available for the echo.
[[nodiscard]] Exchange streamed_set(Protocol protocol, std::size_t key);

}  // namespace muster::bench
