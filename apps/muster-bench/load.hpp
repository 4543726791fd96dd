// SPDX-License-Identifier: Apache-2.0
// The load generator: one thread, one epoll instance, N connections with `depth` requests in flight
// on each. Measures the request rate of a server. Called by the `load` command. Stateless
// functions.
#pragma once

#include "apps/muster-bench/dialect.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::bench {

struct LoadPlan {
  std::uint16_t port = 0;
  Protocol protocol = Protocol::tcpstore;
  Operation operation = Operation::get;
  std::size_t clients = 1;
  std::size_t depth = 1;  // requests per batch; the next batch follows the last answer
  Duration warm_up{};
  Duration measured{};
};

// Answered requests per second. Compares the first answer of every connection byte for byte.
[[nodiscard]] Result<double> measure_rate(const LoadPlan& plan);

struct StreamPlan {
  std::uint16_t port = 0;
  Protocol protocol = Protocol::tcpstore;
  std::size_t clients = 1;
  std::size_t requests = 0;  // requests per client
};

// SETs per second. All clients send without waiting and discard answers, if the protocol has any.
// Then each client reads its last key; the clock stops when the last answer arrives.
[[nodiscard]] Result<double> measure_stream(const StreamPlan& plan);

}  // namespace muster::bench
