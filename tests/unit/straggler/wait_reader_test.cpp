// SPDX-License-Identifier: Apache-2.0
#include "straggler/wait_reader.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "collective/recorder/flight_recorder.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace muster::straggler {
namespace {

using collective::FlightRecorder;
using namespace std::chrono_literals;

}  // namespace

TEST_CASE("wait reader: a rank's wait time since its communicator was created") {
  auto recorder = FlightRecorder::open({.name = "world", .rank = 0, .epoch = 7});
  REQUIRE(recorder);
  collective::Request request;
  request.kind = collective::Kind::barrier;
  (*recorder)->queued(request, steady_now());
  (*recorder)->queued(request, steady_now());
  (*recorder)->waited(3ms);
  (*recorder)->waited(Duration::zero());  // all others had arrived already
  (*recorder)->waited(4ms);
  const UniqueFd fd(::open((*recorder)->path().c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(
      read_waits({fd.get()}, {{::getpid(), 5}}) ==
      std::vector<RankWaits>{
          {.rank = 5,
           .step = std::nullopt,
           .groups = {{.group = "world, epoch 7", .operations = 2, .waits = 2, .waited = 7ms}}}});
  REQUIRE(read_waits({fd.get()}, {{::getpid() + 1, 5}}).empty());
}

TEST_CASE("wait reader: a file that is not a flight recorder has none") {
  const UniqueFd fd(::memfd_create("none", MFD_CLOEXEC));
  REQUIRE(::ftruncate(fd.get(), 65536) == 0);
  REQUIRE(read_waits({fd.get(), -1}, {{0, 0}}).empty());
}

}  // namespace muster::straggler
