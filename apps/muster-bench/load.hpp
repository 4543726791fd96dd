// SPDX-License-Identifier: Apache-2.0
// The load generator: one thread, one epoll, N connections, each with `depth` requests in flight.
// Measures how many requests a second a server answers. Called by the store's rows and by the
// `load` command. Functions over values.
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
  std::size_t depth = 1;  // requests sent in one piece; the next piece follows its last answer
  Duration warm_up{};
  Duration measured{};
};

// Answered requests a second. Every first answer is compared byte for byte.
[[nodiscard]] Result<double> measure_rate(const LoadPlan& plan);

struct StreamPlan {
  std::uint16_t port = 0;
  Protocol protocol = Protocol::tcpstore;
  std::size_t clients = 1;
  std::size_t requests = 0;  // for each client
};

// SETs a second: all clients send without waiting (answers, where the protocol has them, are read
// and dropped), then each asks for its last key; the clock stops at the last answer.
[[nodiscard]] Result<double> measure_stream(const StreamPlan& plan);

}  // namespace muster::bench
