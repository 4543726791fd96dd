// SPDX-License-Identifier: Apache-2.0
// The bytes of one request in each protocol of the load generator, and the length of its answer.
// The echo protocol transfers the same number of bytes as TCPStore's without parsing them, which is
// the lower bound for every server. Pure; called by load, storm and stream. Values.
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

// A request and the exact bytes of its answer. For a counter only the length of the answer is
// known; then `reply` has arbitrary bytes and `exact` is false.
struct Exchange {
  std::string request;
  std::string reply;
  bool exact = true;
};

// Keys and values of the same lengths in all protocols: "/bench/00017", 16 bytes.
[[nodiscard]] std::string key_of(std::size_t number);
[[nodiscard]] std::string value_of(std::size_t number);

// The first exchange on a connection: VALIDATE and PING, PING, or for the echo the lengths of each
// request and answer.
[[nodiscard]] Exchange greeting(Protocol protocol, const Exchange& announced);

// Prepares the key for `operation`. Ends with a request that has an answer, to confirm completion.
[[nodiscard]] Exchange prepare(Protocol protocol, Operation operation, std::size_t key);

// One measured request. SET has no answer in TCPStore, so it is SET and CHECK in one segment there.
[[nodiscard]] Exchange exchange(Protocol protocol, Operation operation, std::size_t key);

// A streamed SET: without an answer in TCPStore, with one in redis. Not available for the echo.
[[nodiscard]] Exchange streamed_set(Protocol protocol, std::size_t key);

}  // namespace muster::bench
