// SPDX-License-Identifier: Apache-2.0
// Runs our store client through every operation against a server: client-exercise PORT. Prints each
// operation that did not do what it should, and exits 1 then. For servers that are not ours.
#include "rendezvous/client/blocking_store.hpp"
#include "rendezvous/client/prefix_store.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace muster {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);
constexpr Duration kShort = std::chrono::milliseconds(50);

int wrong = 0;

void expect(bool good, const char* what) {
  if (!good) {
    std::printf("wrong: %s\n", what);
    ++wrong;
  }
}

template <class T>
bool timed_out(const Result<T>& result) {
  return !result && result.error().code == Errc::timed_out;
}

void exercise_values(Store& store) {
  expect(store.set("k", "v") && store.get("k", kPatience) == "v", "set and get");
  expect(store.append("k", "w") && store.get("k", kPatience) == "vw", "append");
  expect(store.add("n", 5) == 5 && store.add("n", -7) == -2, "add");
  expect(store.compare_set("c", "x", "y") == "x", "compare_set of a missing key");
  expect(store.compare_set("c", "", "one") == "one", "compare_set that creates");
  expect(store.compare_set("c", "no", "two") == "one", "compare_set that fails");
  expect(store.compare_set("c", "one", "two") == "two", "compare_set that replaces");
  expect(store.check({"k", "n"}) == true && store.check({"k", "none"}) == false, "check");
  expect(store.multi_set({{"a", "1"}, {"b", ""}}).has_value(), "multi_set");
  expect(store.multi_get({"b", "a"}, kPatience) == std::vector<std::string>{"", "1"}, "multi_get");
  expect(store.delete_key("a") == true && store.delete_key("a") == false, "delete_key");
  const std::string large(1 << 20, 'x');
  expect(store.set("large", large) && store.get("large", kPatience) == large, "a large value");
}

void exercise_waits(Store& store) {
  expect(timed_out(store.wait({"none"}, kShort)), "wait that times out");
  expect(timed_out(store.get("none", Duration::zero())), "get without patience");
  expect(store.add("n", 0) == -2, "the connection after time-outs");
  expect(store.wait({"k", "n"}, kPatience).has_value(), "wait");
  expect(store.barrier("barrier of one", 1, kPatience).has_value(), "barrier");
  expect(timed_out(store.barrier("barrier of two", 2, kShort)), "barrier that times out");
}

void exercise_queues(Store& store) {
  expect(store.queue_push("q", "one") && store.queue_push("q", "two"), "queue_push");
  expect(store.queue_len("q") == 2, "queue_len");
  expect(store.queue_pop("q", kPatience) == "one", "queue_pop");
  expect(store.queue_pop("q", kPatience) == "two", "queue_pop of the last");
  expect(timed_out(store.queue_pop("q", kShort)), "queue_pop of an empty queue");
}

void exercise_lists(Store& store, Store& below) {
  const std::vector<std::string> expected{"b",
                                          "barrier of one/last_member",
                                          "barrier of one/num_members",
                                          "barrier of two/num_members",
                                          "c",
                                          "k",
                                          "large",
                                          "n"};
  expect(store.list_keys() == expected, "list_keys of a prefix");
  expect(below.num_keys().has_value(), "num_keys");
}

int run(const char* port) {
  auto store = BlockingStore::connect(
      "127.0.0.1", static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10)), kPatience);
  if (!store) {
    std::printf("%s\n", store.error().message.c_str());
    return 1;
  }
  exercise_values(**store);
  exercise_waits(**store);
  exercise_queues(**store);
  PrefixStore prefixed("prefix", **store);
  exercise_values(prefixed);
  exercise_waits(prefixed);
  exercise_queues(prefixed);
  exercise_lists(prefixed, **store);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  return argc == 2 ? muster::run(argv[1]) : 2;
}
