// SPDX-License-Identifier: Apache-2.0
#include "hang/judge/positions.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace muster::hang {
namespace {

using collective::FlightLog;
using collective::FlightRecord;
using collective::Kind;

FlightRecord record(std::uint64_t seq, bool completed) {
  FlightRecord out;
  out.request.kind = Kind::all_reduce;
  out.request.dtype = collective::DType::f32;
  out.request.count = 25;
  out.request.root = -1;
  out.request.seq = seq;
  out.queued_ns = 1;
  out.completed_ns = completed ? 2 : 0;
  return out;
}

FlightLog log_of(std::vector<FlightRecord> records) {
  FlightLog out;
  out.name = "world";
  out.rank = 1;
  out.size = 2;
  out.pid = 700;
  out.records = std::move(records);
  return out;
}

}  // namespace

TEST_CASE("converts a flight recorder to a position") {
  FlightRecord transfer = record(9, false);
  transfer.request.kind = Kind::recv;
  transfer.request.root = 0;
  const auto positions =
      positions_of({log_of({record(3, true), record(4, false), transfer})}, 5'000'000'001);
  REQUIRE(positions.size() == 2);
  REQUIRE(positions[0].first == 700);
  const Position& at = positions[0].second;
  REQUIRE(at.group == "world, epoch 0");
  REQUIRE(at.rank == 1);
  REQUIRE(at.size == 2);
  REQUIRE(at.entered == 4);  // transfers are numbered separately
  REQUIRE(at.recent.size() == 1);
  REQUIRE(at.pending.size() == 2);
  REQUIRE(at.pending[0] ==
          Operation{.number = 4, .what = "all_reduce sum f32[25]", .age = 5'000'000'000});
  REQUIRE(at.pending[1].peer == 0);
}

TEST_CASE("does not compare operations on a GPU with those on the host") {
  FlightRecord on_gpu = record(7, false);
  on_gpu.on_gpu = true;
  const auto positions = positions_of({log_of({record(4, false), on_gpu})}, 2);
  REQUIRE(positions.size() == 2);
  REQUIRE(positions[0].second.entered == 4);
  REQUIRE(positions[1].second.entered == 7);
  REQUIRE(positions[1].second.pending.size() == 1);
  REQUIRE(positions[0].second.group != positions[1].second.group);
  // A rank that has called nothing on a GPU has not reached what other ranks call there.
  REQUIRE(positions_of({log_of({record(4, false)})}, 2).at(1).second.entered == 0);
}

TEST_CASE("keeps the newest completed and the oldest pending ones of many operations") {
  std::vector<FlightRecord> records;
  for (std::uint64_t seq = 1; seq <= 2000; ++seq) {
    records.push_back(record(seq, seq <= 1000));
  }
  const Position at = positions_of({log_of(std::move(records))}, 2).at(0).second;
  REQUIRE(at.entered == 2000);
  REQUIRE(at.recent.size() == kRecentMax);
  REQUIRE(at.recent.back().number == 1000);
  REQUIRE(at.pending.size() == kPendingMax);
  REQUIRE(at.pending.front().number == 1001);
}

TEST_CASE("a nonsensical record does no harm") {
  FlightRecord odd = record(UINT64_MAX, false);
  odd.request.kind = static_cast<Kind>(250);
  odd.request.dtype = static_cast<collective::DType>(251);
  odd.request.op = static_cast<collective::Op>(252);
  odd.request.root = -7;
  odd.queued_ns = UINT64_MAX;
  const Position at = positions_of({log_of({odd})}, 2).at(0).second;
  REQUIRE(at.pending.size() == 1);
  REQUIRE(at.pending[0].age == 0);
}

}  // namespace muster::hang
