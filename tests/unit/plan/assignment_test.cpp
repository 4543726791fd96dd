// SPDX-License-Identifier: Apache-2.0
// Ranks of a round, compared with a plain list of all its workers.
#include "plan/assignment.hpp"

#include "support/catch.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

using namespace muster;

namespace {

Endpoint store() {
  return {"10.0.0.7", 4711};
}

Assignment assigned(const std::vector<NodeShare>& members, std::size_t self) {
  const auto out = assign(members, self, {2, 5}, store());
  if (!out) {
    FAIL(out.error().message);
  }
  return *out;
}

std::string refused(const std::vector<NodeShare>& members, std::size_t self) {
  const auto out = assign(members, self, {}, store());
  if (out) {
    return "accepted";
  }
  CHECK(out.error().code == Errc::protocol);
  return out.error().message;
}

struct Worker {
  std::size_t node = 0;
  std::string role;
};

// Every worker of the round by its global rank.
std::vector<Worker> workers_of(const std::vector<NodeShare>& members) {
  std::vector<Worker> out;
  for (std::size_t node = 0; node < members.size(); ++node) {
    for (int i = 0; i < members[node].nproc; ++i) {
      out.push_back({node, members[node].role});
    }
  }
  return out;
}

// Checks that the ranks assigned to `self` are those in the list.
void check_against_list(const std::vector<NodeShare>& members, std::size_t self) {
  const std::vector<Worker> workers = workers_of(members);
  const Assignment a = assigned(members, self);
  const auto same_role = [&](const Worker& w) { return w.role == members[self].role; };
  const auto own = std::ranges::find(workers, self, &Worker::node);
  CHECK(a.group_rank == static_cast<int>(self));
  CHECK(a.group_world_size == static_cast<int>(members.size()));
  CHECK(a.world_size == static_cast<int>(workers.size()));
  CHECK(a.local_world_size == std::ranges::count(workers, self, &Worker::node));
  CHECK(a.rank_first == own - workers.begin());
  CHECK(a.role_world_size == std::ranges::count_if(workers, same_role));
  CHECK(a.role_rank_first == std::count_if(workers.begin(), own, same_role));
}

}  // namespace

TEST_CASE("assign: three nodes of different sizes and two roles") {
  const std::vector<NodeShare> members{{2, "a"}, {1, "b"}, {3, "a"}};
  const Assignment first = assigned(members, 0);
  CHECK(first.rank_first == 0);
  CHECK(first.role_rank_first == 0);
  CHECK(first.world_size == 6);
  CHECK(first.role_world_size == 5);
  CHECK(first.local_world_size == 2);
  const Assignment second = assigned(members, 1);
  CHECK(second.rank_first == 2);
  CHECK(second.role_rank_first == 0);
  CHECK(second.role_world_size == 1);
  const Assignment third = assigned(members, 2);
  CHECK(third.group_rank == 2);
  CHECK(third.group_world_size == 3);
  CHECK(third.rank_first == 3);
  CHECK(third.role_rank_first == 2);
  CHECK(third.local_world_size == 3);
}

TEST_CASE("assign: restart counts and the store's address are copied") {
  const std::vector<NodeShare> members{{1, "a"}, {1, "a"}};
  const Assignment a = assigned(members, 1);
  CHECK(a.restart_count == 2);
  CHECK(a.attempt == 5);
  CHECK(a.master_addr == "10.0.0.7");
  CHECK(a.master_port == 4711);
}

TEST_CASE("assign: a single node is a special case") {
  const std::vector<NodeShare> members{{4, "default"}};
  const Assignment alone = assign_alone(4, 3, store());
  CHECK(assign(members, 0, {3, 3, 4}, store()) == alone);
  CHECK(alone.world_size == 4);
  CHECK(alone.role_world_size == 4);
  CHECK(alone.group_world_size == 1);
}

TEST_CASE("assign: every round agrees with a plain list of its workers") {
  const testing::Seed seed;
  testing::Dice dice(seed.value());
  INFO(seed.describe());
  constexpr std::array<const char*, 3> kRoles{"trainer", "reader", "judge"};
  for (int round = 0; round < 300; ++round) {
    std::vector<NodeShare> members(1 + dice.below(12));
    for (NodeShare& member : members) {
      member = {static_cast<int>(1 + dice.below(9)), kRoles.at(dice.below(kRoles.size()))};
    }
    for (std::size_t self = 0; self < members.size(); ++self) {
      check_against_list(members, self);
    }
  }
}

TEST_CASE("assign: rejects rounds that cannot exist") {
  constexpr int kMost = std::numeric_limits<int>::max();
  CHECK(refused({{1, "a"}, {0, "a"}}, 0) == "group rank 1 has 0 workers");
  CHECK(refused({{-3, "a"}}, 0) == "group rank 0 has -3 workers");
  CHECK(refused({{kMost, "a"}, {1, "b"}}, 0) == "a round of 2147483648 workers is too large");
  CHECK(refused({{1, "a"}}, 1) == "group rank 1 is not in a round of 1");
  CHECK(refused({}, 0) == "group rank 0 is not in a round of 0");
  CHECK(assigned({{kMost, "a"}}, 0).world_size == kMost);
}
