// SPDX-License-Identifier: Apache-2.0
#include "straggler/lateness.hpp"

#include "support/catch.hpp"

namespace muster::straggler {
namespace {

using collective::FlightLog;
using collective::FlightRecord;

const std::map<pid_t, int> kRanks{{100, 0}, {101, 1}, {102, 2}};

// The times in milliseconds at which a rank called its operations, starting with the first one.
FlightLog log_of(int pid, const std::vector<std::uint64_t>& called, std::uint64_t first = 1) {
  FlightLog out;
  out.name = "world";
  out.pid = pid;
  for (const std::uint64_t when : called) {
    FlightRecord record;
    record.request.kind = collective::Kind::all_reduce;
    record.request.seq = first++;
    record.queued_ns = when * 1'000'000;
    record.completed_ns = 1;
    out.records.push_back(record);
  }
  return out;
}

}  // namespace

TEST_CASE("lateness: if the other ranks arrive together, all lateness is the slow rank's own") {
  const auto share = own_share(
      {log_of(100, {110, 210}), log_of(101, {110, 210}), log_of(102, {140, 240})}, kRanks, {2});
  REQUIRE(share);
  REQUIRE(*share == Approx(1));
}

TEST_CASE("lateness: time that the others would wait for each other does not count") {
  // 0 and 1 take turns being 10 ms late, 2 is always 30 ms late: 20 ms behind the later one, 25 on
  // average.
  const auto share = own_share(
      {log_of(100, {110, 200}), log_of(101, {100, 210}), log_of(102, {130, 230})}, kRanks, {2});
  REQUIRE(share);
  REQUIRE(*share == Approx(0.8));
}

TEST_CASE("lateness: operations that some rank no longer has do not count") {
  const auto share = own_share(
      {log_of(100, {110, 210}), log_of(101, {210}, 2), log_of(102, {140, 240})}, kRanks, {2});
  REQUIRE(share);
  REQUIRE(*share == Approx(1));
}

TEST_CASE("lateness: returns nothing for ranks that are punctual, missing or alone") {
  REQUIRE(!own_share({log_of(100, {110}), log_of(102, {100})}, kRanks, {2}));
  REQUIRE(!own_share({log_of(100, {110}), log_of(101, {100})}, kRanks, {2}));
  REQUIRE(!own_share({log_of(102, {110})}, kRanks, {2}));
  REQUIRE(!own_share({log_of(7, {110}), log_of(8, {120})}, kRanks, {2}));
  REQUIRE(!own_share({}, kRanks, {2}));
}

}  // namespace muster::straggler
