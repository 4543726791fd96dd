// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_set.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

CpuSet set(std::string_view list) {
  return CpuSet::parse(list).value();
}

}  // namespace

TEST_CASE("cpu set: parses and prints the kernel's list format") {
  CHECK(set("0-3,8\n").numbers() == std::vector{0, 1, 2, 3, 8});
  for (const char* list : {"", "0", "63-64", "0-3,8,10-11", "127", "65535"}) {
    CHECK(set(list).describe() == list);
  }
  CHECK(set("3,1,2,2-3").describe() == "1-3");
  CHECK(set("\n").empty());
}

TEST_CASE("cpu set: rejects text that is not such a list") {
  for (const char* text : {"a",
                           "-1",
                           "1-",
                           "-",
                           "3-1",
                           "1,,2",
                           ",",
                           "0x1",
                           "1 2",
                           "+1",
                           "65536",
                           "0-65536",
                           "99999999999999999999",
                           "1-2-3",
                           "1:2"}) {
    INFO(text);
    CHECK_FALSE(CpuSet::parse(text));
  }
}

TEST_CASE("cpu set: counts its CPUs and finds single ones") {
  const CpuSet some = set("5,64-66,130");
  CHECK(some.count() == 5);
  CHECK(some.first() == 5);
  CHECK(CpuSet{}.first() == -1);
  CHECK(some.contains(65));
  CHECK_FALSE(some.contains(67));
  CHECK_FALSE(some.contains(100'000));
  CHECK_FALSE(some.contains(-1));
}

TEST_CASE("cpu set: equal sets have equal words, however they were built") {
  CHECK((set("1,200") & set("0-63")) == set("1"));
  CHECK((set("1,200") - set("200")) == set("1"));
  CHECK((set("1") | set("200")) == set("1,200"));
  CHECK((set("200") - set("0-255")).empty());
  CHECK(CpuSet::from_words(std::vector<CpuSet::Word>{2, 0, 0}) == set("1"));
  CHECK(set("64").words().size() == 2);
}
