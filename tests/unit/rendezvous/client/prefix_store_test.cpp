// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/prefix_store.hpp"

#include "fake_store.hpp"
#include "support/catch.hpp"

using namespace muster;
using testing::FakeStore;
using Calls = std::vector<std::string>;

namespace {

constexpr Duration kTimeout = std::chrono::seconds(1);

}  // namespace

TEST_CASE("prefix store: every operation adds the prefix to its keys") {
  FakeStore below;
  PrefixStore store("p", below);
  CHECK(store.set("a", "1"));
  CHECK(store.append("a", "2"));
  CHECK(store.multi_set({{"a", "1"}, {"b", "2"}}));
  CHECK(store.get("a", kTimeout) == "value");
  CHECK(store.multi_get({"a", "b"}, kTimeout));
  CHECK(store.add("n", 3) == 1);
  CHECK(store.compare_set("a", "x", "y") == "y");
  CHECK(store.wait({"a"}, kTimeout));
  CHECK(store.check({"a"}) == true);
  CHECK(store.delete_key("a") == true);
  CHECK(store.queue_push("q", "e"));
  CHECK(store.queue_pop("q", kTimeout) == "element");
  CHECK(store.queue_len("q") == 1);
  CHECK(below.calls == Calls{"set p/a 1",
                             "append p/a 2",
                             "multi_set p/a 1",
                             "multi_set p/b 2",
                             "get p/a",
                             "multi_get p/a",
                             "multi_get p/b",
                             "add p/n 3",
                             "compare_set p/a x>y",
                             "wait p/a",
                             "check p/a",
                             "delete_key p/a",
                             "queue_push p/q e",
                             "queue_pop p/q",
                             "queue_len p/q"});
}

TEST_CASE("prefix store: the inner prefix comes first on the wire, as in PyTorch") {
  FakeStore below;
  PrefixStore inner("inner", below);
  PrefixStore outer("outer", inner);
  CHECK(outer.set("k", "v"));
  CHECK(below.calls == Calls{"set inner/outer/k v"});
}

TEST_CASE("prefix store: lists only its own keys, but counts all") {
  FakeStore below;
  below.keys = {"other", "p/a", "p/b/c", "pq/d"};
  PrefixStore store("p", below);
  CHECK(store.list_keys() == std::vector<std::string>{"a", "b/c"});
  CHECK(store.num_keys() == 4);
}

TEST_CASE("prefix store: a barrier uses the keys of PyTorch's generic one") {
  FakeStore below;
  PrefixStore store("p", below);
  below.add_result = 1;
  CHECK(store.barrier("b", 2, kTimeout));
  CHECK(below.calls == Calls{"add p/b/num_members 1", "wait p/b/last_member"});
  below.calls.clear();
  below.add_result = 2;
  CHECK(store.barrier("b", 2, kTimeout));
  CHECK(below.calls ==
        Calls{"add p/b/num_members 1", "set p/b/last_member 1", "wait p/b/last_member"});
}
