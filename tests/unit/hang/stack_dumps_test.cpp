// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/stack_dumps.hpp"

#include "hang/judge/stack_places.hpp"
#include "support/catch.hpp"

#include <string>

namespace muster::hang {

TEST_CASE("parses a dump from py-spy") {
  const auto stacks = parse_py_spy(
      R"([{"pid":1,"thread_id":140293147346624,"thread_name":"one","os_thread_id":27603,)"
      R"("active":false,"owns_gil":true,"frames":[{"name":"one","filename":"/tmp/dl.py",)"
      R"("short_filename":"dl.py","line":6,"locals":null}]},)"
      R"({"thread_name":null,"os_thread_id":null,"frames":null}, 7])");
  REQUIRE(stacks.size() == 2);
  REQUIRE(stacks[0] == Stack{.tid = 27603,
                             .name = "one",
                             .python = true,
                             .holds_gil = true,
                             .frames = {{"one", "/tmp/dl.py", 6}}});
  REQUIRE(stacks[1] == Stack{.python = true});
}

TEST_CASE("rejects text that is not a dump from py-spy") {
  for (const char* text : {"", "{}", "[", "Error: no such process", "[[]]", "null"}) {
    REQUIRE(parse_py_spy(text).empty());
  }
}

TEST_CASE("partial dumps and absurd depths do no harm") {
  const std::string dump =
      R"([{"thread_name":"a","os_thread_id":-1,"owns_gil":3,"frames":[{"name":1},[],{}]}])";
  for (std::size_t size = 0; size < dump.size(); ++size) {
    REQUIRE(parse_py_spy(dump.substr(0, size)).empty());
  }
  const auto stacks = parse_py_spy(dump);
  REQUIRE(stacks.size() == 1);
  REQUIRE(stacks[0].tid == 0);
  REQUIRE(stacks[0].frames.size() == 2);
  REQUIRE(parse_py_spy(std::string(1 << 20, '[')).empty());
  std::string many = "[";
  std::string threads;
  for (std::size_t i = 0; i < 2 * kThreadsMax; ++i) {
    many += "{},";
    threads += "TID 1:\n#0 0x1 f\n";
  }
  REQUIRE(parse_py_spy(many + "{}]").size() == kThreadsMax);
  REQUIRE(parse_eu_stack(threads).size() == kThreadsMax);
}

TEST_CASE("parses a dump from eu-stack") {
  const auto stacks = parse_eu_stack(
      "PID 27989 - process\nTID 27989:\n"
      "#0  0x00007f1d9b012503 clock_nanosleep@GLIBC_2.2.5\n#1  0x00007f1d9ac50f7a\n"
      "#2  0x00007f1d9ac50b0d - 1 std::thread::join()\nTID x:\n#0 0x1 f\n");
  REQUIRE(stacks.size() == 1);
  REQUIRE(stacks[0].frames.size() == 3);
  REQUIRE(stacks[0].frames[0].function == "clock_nanosleep@GLIBC_2.2.5");
  REQUIRE(stacks[0].frames[1].function.empty());
  REQUIRE(stacks[0].frames[2].function == "std::thread::join()");
  REQUIRE(parse_eu_stack("").empty());
  REQUIRE(parse_eu_stack("#0 0x1 f\n").empty());
}

TEST_CASE("finds the user's frame, not those of libraries") {
  const Stack python{.python = true,
                     .frames = {{"wait", "/usr/lib/python3.11/threading.py", 1},
                                {"all_reduce", "/v/site-packages/torch/x.py", 2},
                                {"train", "/job/train.py", 3}}};
  REQUIRE(describe(*own_frame(&python)) == "train (train.py:3)");
  const Stack native{.frames = {{"__futex_wait", "", 0}, {"", "", 0}, {"spin", "", 0}}};
  REQUIRE(describe(*own_native_frame(&native)) == "spin");
  const Stack inside{
      .frames = {{"__futex_wait", "", 0}, {"PyThread_acquire_lock_timed", "", 0}, {"spin", "", 0}}};
  REQUIRE(own_native_frame(&inside) == nullptr);
}

}  // namespace muster::hang
