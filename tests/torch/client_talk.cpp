// SPDX-License-Identifier: Apache-2.0
// client_talk PORT queues|no-queues: the blocking client uses every operation that it supports,
// with PyTorch's client (test_client.py) as a partner on the same server. Exits with 0 on success.
#include "base/text.hpp"
#include "rendezvous/client/blocking_store.hpp"
#include "rendezvous/client/prefix_store.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace muster {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

constexpr Duration kTimeout = 60s;
constexpr Duration kShort = 50ms;

using Where = std::source_location;

[[noreturn]] void give_up(const std::string& what, const Where& where) {
  std::fprintf(stderr, "client_talk.cpp:%u: %s\n", where.line(), what.c_str());
  std::exit(1);
}

void expect(bool holds, const Where& where = Where::current()) {
  if (!holds) {
    give_up("does not hold", where);
  }
}

template <class T>
T must(Result<T> result, const Where& where = Where::current()) {
  if (!result) {
    give_up(result.error().message, where);
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(*result);
  }
}

template <class T>
void times_out(const Result<T>& result, const Where& where = Where::current()) {
  if (result || result.error().code != Errc::timed_out) {
    give_up("did not time out", where);
  }
}

void talk_of_values(Store& store) {
  const auto binary = "\0\xff\n"s + std::string(100'000, 'x');
  must(store.set("cpp/value", binary));
  expect(must(store.get("cpp/value", kTimeout)) == binary);
  must(store.set("cpp/empty", ""));
  expect(must(store.get("cpp/empty", kTimeout)).empty());
  expect(must(store.get("python/value", kTimeout)) == "from python");
  expect(must(store.add("cpp/number", 40)) == 40);
  expect(must(store.add("cpp/number", -50)) == -10);
  expect(must(store.get("cpp/number", kTimeout)) == "-10");
  must(store.append("cpp/text", "po"));
  must(store.append("cpp/text", "tato"));
  expect(must(store.get("cpp/text", kTimeout)) == "potato");
  const std::string large(8 * 1024 * 1024, 'L');
  must(store.set("cpp/large", large));
  expect(must(store.get("cpp/large", kTimeout)) == large);
}

void talk_of_comparing(Store& store) {
  expect(must(store.compare_set("cpp/c", "wrong", "v")) == "wrong");
  expect(!must(store.check({"cpp/c"})));
  expect(must(store.compare_set("cpp/c", "", "first")) == "first");
  expect(must(store.compare_set("cpp/c", "wrong", "v")) == "first");
  expect(must(store.compare_set("cpp/c", "first", "second")) == "second");
  expect(must(store.compare_set("cpp/c", "", "v")) == "second");
}

void talk_of_many_keys(Store& store) {
  must(store.multi_set({{"cpp/m1", "1"}, {"cpp/m2", ""}, {"cpp/m3", std::string(3000, '3')}}));
  const auto values = must(store.multi_get({"cpp/m3", "cpp/m1", "cpp/m2"}, kTimeout));
  expect(values == std::vector<std::string>{std::string(3000, '3'), "1", ""});
  expect(must(store.check({})));
  must(store.wait({}, kTimeout));
  must(store.wait({"cpp/m1", "cpp/m2"}, kTimeout));
  const auto count = must(store.num_keys());
  expect(count >= 8);
  expect(must(store.delete_key("cpp/m1")));
  expect(!must(store.delete_key("cpp/m1")));
  expect(!must(store.check({"cpp/m1", "cpp/m2"})));
  const auto keys = must(store.list_keys());
  expect(std::ranges::count(keys, "cpp/m1") == 0);
  expect(std::ranges::count(keys, "cpp/m2") == 1);
}

void talk_of_time(Store& store) {
  for (int turn = 1; turn <= 3; ++turn) {
    times_out(store.wait({"cpp/never", "cpp/m2"}, kShort));
    times_out(store.get("cpp/never", kShort));
    times_out(store.barrier("cpp/lonely/" + std::to_string(turn), 2, kShort));
    expect(must(store.add("cpp/turns", 1)) == turn);
  }
}

void talk_of_queues(Store& store) {
  expect(must(store.queue_len("to cpp later")) == 0);
  times_out(store.queue_pop("to cpp later", kShort));
  must(store.queue_push("to python", "first"));
  must(store.queue_push("to python", ""));
  expect(must(store.queue_pop("to cpp", kTimeout)) == "one");
  expect(must(store.queue_pop("to cpp", kTimeout)) == "two");
}

void talk_of_meeting(Store& store) {
  must(store.barrier("meet", 2, kTimeout));
  PrefixStore inner("inner", store);
  PrefixStore outer("outer", inner);
  must(outer.set("k", "prefixed"));
  must(outer.barrier("meet", 2, kTimeout));
  expect(must(outer.list_keys()).size() == 3);
}

int talk(std::uint16_t port, bool queues) {
  const auto store = must(BlockingStore::connect("127.0.0.1", port, kTimeout));
  talk_of_values(*store);
  talk_of_comparing(*store);
  talk_of_many_keys(*store);
  talk_of_time(*store);
  if (queues) {
    talk_of_queues(*store);
  }
  talk_of_meeting(*store);
  std::puts("all as expected");
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const auto port = argc == 3 ? muster::parse_int(argv[1]) : std::nullopt;
  if (!port) {
    std::fputs("usage: client_talk PORT queues|no-queues\n", stderr);
    return 2;
  }
  return muster::talk(static_cast<std::uint16_t>(*port), argv[2] == std::string_view("queues"));
}
