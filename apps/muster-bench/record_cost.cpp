// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/record_cost.hpp"

#include "base/clock.hpp"
#include "rendezvous/node/round_record.hpp"

#include <fmt/format.h>

#include <memory>

namespace muster::bench {
namespace {

Memory memory_of(std::size_t nodes, std::uint64_t number) {
  auto round = std::make_shared<Round>();
  round->id = {.number = number, .coordinator = 1};
  for (std::size_t i = 0; i < nodes; ++i) {
    NodeInfo& node = round->members.emplace_back();
    node.id = i + 1;
    node.name = fmt::format("node{}", i);
    node.address = fmt::format("10.0.{}.{}", i / 256, i % 256);
    node.port = 40000;
    node.nproc = 8;
  }
  return {round, round, round, {1}};
}

}  // namespace

Result<std::vector<Duration>> measure_record(const std::string& folder,
                                             std::size_t nodes,
                                             std::size_t writes) {
  const RoundRecord record = RoundRecord::open(folder, "bench", std::chrono::minutes(10));
  if (!record.is_on()) {
    return failure(Errc::system, record.trouble());
  }
  std::vector<Duration> times;
  for (std::size_t i = 0; i < writes; ++i) {
    const Memory memory = memory_of(nodes, i + 1);
    const TimePoint begin = steady_now();
    MUSTER_RETURN_IF_ERROR(record.write(memory, true));
    times.push_back(steady_now() - begin);
  }
  record.remove();
  return times;
}

}  // namespace muster::bench
