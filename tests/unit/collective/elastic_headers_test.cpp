// SPDX-License-Identifier: Apache-2.0
// muster/elastic.hpp and elastic.h in a process that muster did not start: the function runs once.
#include "muster/elastic.hpp"
#include "support/catch.hpp"

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace elastic = muster::elastic;

namespace {

struct Values {
  int step = 0;
  std::array<double, 2> pair{};
  std::vector<float> weights = std::vector<float>(3);
  int more[2] = {};
};

void add(elastic::State& state, Values& values) {
  state.add(values.step);
  state.add(values.pair);
  state.add(values.weights);
  state.add(values.more, sizeof(values.more));
}

}  // namespace

TEST_CASE("elastic headers: a state restores values, arrays, vectors and memory") {
  Values values;
  elastic::State state;
  add(state, values);
  values.step = 4;
  values.pair = {1, 2};
  values.weights = {1, 2, 3};
  values.more[1] = 5;
  REQUIRE(state.commit());
  values.step = 0;
  values.pair = {};
  std::fill(values.weights.begin(), values.weights.end(), 0.F);
  values.more[1] = 0;
  state.restore();
  CHECK(values.step == 4);
  CHECK(values.pair[1] == 2);
  CHECK(values.weights == std::vector<float>{1, 2, 3});
  CHECK(values.more[1] == 5);
  CHECK(state.commits() == 1);
}

TEST_CASE("elastic headers: the function gets a communicator, and its result is returned") {
  Values values;
  elastic::State state;
  add(state, values);
  int resets = 0;
  state.on_reset([&] { ++resets; });
  const auto done = elastic::run(state, [&](muster::Communicator& comm) -> muster::Result<void> {
    values.weights = {1, 2, 3};
    if (auto sum = comm.all_reduce({values.weights.data(), 3}, muster::Op::sum); !sum) {
      return sum.error();
    }
    values.step = comm.size();
    return state.commit();
  });
  REQUIRE(done);
  CHECK(values.step == 1);
  CHECK(values.weights[2] == 3);
  CHECK(resets == 0);
  // Without muster, a second call is possible.
  const auto failed = elastic::run(state, [](muster::Communicator&) -> muster::Result<void> {
    return muster::failure(muster::Errc::system, "no disk");
  });
  REQUIRE_FALSE(failed);
  CHECK(failed.error().text == "no disk");
}

TEST_CASE("elastic headers: an exception of the function passes, but not through the library") {
  elastic::State state;
  const auto fail = [](muster::Communicator&) -> muster::Result<void> {
    throw std::runtime_error("no luck");
  };
  CHECK_THROWS_WITH(elastic::run(state, fail), "no luck");
}

TEST_CASE("elastic headers: an invalid add is the error of commit and run") {
  elastic::State state;
  state.add(nullptr, 4);
  REQUIRE(state.error());
  CHECK(state.commit().error().code == muster::Errc::invalid_argument);
  bool is_called = false;
  const auto done = elastic::run(state, [&](muster::Communicator&) -> muster::Result<void> {
    is_called = true;
    return {};
  });
  REQUIRE_FALSE(done);
  CHECK(done.error().text == "cannot add 4 bytes to the state: the pointer is null");
  CHECK_FALSE(is_called);
}

TEST_CASE("elastic headers: in C, the number of the function is returned") {
  muster_state* state = nullptr;
  REQUIRE(muster_state_create(&state) == 0);
  const auto train = [](muster_comm* comm, void* user) {
    return muster_comm_size(comm) == 1 ? *static_cast<int*>(user) : -1;
  };
  int code = 0;
  CHECK(muster_elastic_run(state, train, &code, nullptr) == 0);
  code = 42;
  CHECK(muster_elastic_run(state, train, &code, nullptr) == 42);
  CHECK(muster_state_add(state, &code, sizeof(code)) == MUSTER_E_INVALID_STATE);
  muster_state_destroy(state);
  muster_state_destroy(nullptr);
}
