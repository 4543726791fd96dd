// SPDX-License-Identifier: Apache-2.0
#include "status/step_times.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

TimePoint at(double seconds) {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

StepSample step(std::uint64_t number, double seconds) {
  return {number, at(seconds)};
}

}  // namespace

TEST_CASE("step times: each interval has the median of the workers' step times") {
  StepTimes times;
  times.end_interval(at(10), {step(0, 9), step(0, 9), step(0, 9), std::nullopt});
  CHECK(times.seconds().back() == std::nullopt);
  times.end_interval(at(20), {step(10, 19), step(20, 19), step(5, 19), std::nullopt});
  CHECK(times.seconds().back() == 1.0);
  CHECK(times.seconds().size() == 2);
  CHECK(times.end() == at(20));
}

TEST_CASE("step times: a step that is longer than an interval counts when it ends") {
  StepTimes times;
  times.end_interval(at(10), {step(3, 9)});
  times.end_interval(at(20), {step(3, 9)});
  times.end_interval(at(30), {step(4, 29)});
  CHECK(times.seconds() == std::deque<std::optional<double>>{std::nullopt, std::nullopt, 20.0});
  CHECK(times.rates(at(31), {step(4, 29)}) == std::vector<std::optional<double>>{0.05});
}

TEST_CASE("step times: the chart covers an hour, and missed intervals are empty") {
  StepTimes times;
  times.end_interval(at(10), {step(0, 10)});
  times.end_interval(at(41), {step(31, 41)});
  CHECK(times.seconds() ==
        std::deque<std::optional<double>>{std::nullopt, std::nullopt, std::nullopt, 1.0});
  times.end_interval(at(1e6), {});
  CHECK(times.seconds().size() == kStepIntervalsMax);
}

TEST_CASE("step times: rates cover the time since the interval before the last one") {
  StepTimes times;
  CHECK(times.rates(at(1), {step(0, 1), std::nullopt}) == std::vector<std::optional<double>>(2));
  CHECK(times.rates(at(3), {step(8, 3), std::nullopt})[0] == 4.0);
  times.end_interval(at(11), {step(16, 5), std::nullopt});
  CHECK(times.rates(at(6), {step(20, 6), std::nullopt})[0] == 4.0);
}

TEST_CASE("step times: the rate of a worker that hangs decreases") {
  StepTimes times;
  times.end_interval(at(10), {step(0, 10)});
  times.end_interval(at(20), {step(100, 20)});
  CHECK(times.rates(at(20.15), {step(100, 20)})[0] == 10.0);
  CHECK(times.rates(at(28), {step(100, 20)})[0] == 0.125);
}

TEST_CASE("step times: steps begin again after a restart") {
  StepTimes times;
  times.end_interval(at(10), {step(50, 10)});
  times.end_interval(at(20), {step(60, 20)});
  CHECK(times.rates(at(22), {step(2, 22)})[0] == std::nullopt);
  CHECK(times.rates(at(23), {step(4, 23)})[0] == 2.0);
  times.begin_round();
  CHECK(times.rates(at(24), {step(90, 24)})[0] == std::nullopt);
  CHECK(times.seconds().size() == 2);
}
