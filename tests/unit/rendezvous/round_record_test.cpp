// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/round_record.hpp"

#include "support/catch.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace muster {

using namespace std::chrono_literals;

namespace {

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "muster-record-XXXXXX").string();

  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  ~Folder() { std::filesystem::remove_all(path); }

  [[nodiscard]] RoundRecord open(Duration fresh_for = 600s) const {
    return RoundRecord::open(path + "/a/b", "n1", fresh_for);
  }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(path + "/a/b"), {}));
  }
};

Memory memory_of(std::uint64_t number) {
  auto round = std::make_shared<Round>();
  round->id = {.number = number, .coordinator = 7};
  round->members = {NodeInfo{7, "n1", "10.0.0.1", 2, 1, "", -1}};
  const auto none = std::make_shared<const Round>();
  return {none, round, none, {7}};
}

std::uint64_t number_in(const RoundRecord& record) {
  const auto memory = record.read();
  return memory ? memory->accepted->id.number : 0;
}

}  // namespace

TEST_CASE("round record: the next agent reads what the last one wrote") {
  const Folder folder;
  {
    const RoundRecord record = folder.open();
    REQUIRE(record.is_on());
    CHECK(number_in(record) == 0);
    REQUIRE(record.write(memory_of(4), true));
    REQUIRE(record.write(memory_of(5), false));
  }
  CHECK(number_in(folder.open()) == 5);
}

TEST_CASE("round record: nobody reads a record whose agent or guard still runs") {
  const Folder folder;
  auto first = std::make_unique<RoundRecord>(folder.open());
  REQUIRE(first->write(memory_of(4), true));
  const RoundRecord second = folder.open();
  REQUIRE(second.is_on());
  CHECK(second.path() != first->path());
  CHECK(number_in(second) == 0);
  REQUIRE(second.write(memory_of(6), true));
  first.reset();
  CHECK(number_in(folder.open()) == 4);  // not a fresh file
}

TEST_CASE("round record: one that was not touched for long is none") {
  const Folder folder;
  const RoundRecord record = folder.open(60s);
  REQUIRE(record.write(memory_of(4), true));
  const auto age = [&](std::chrono::seconds old) {
    std::filesystem::last_write_time(record.path(),
                                     std::filesystem::file_time_type::clock::now() - old);
  };
  age(50s);
  CHECK(number_in(record) == 4);
  age(70s);
  CHECK(number_in(record) == 0);
  record.touch();
  CHECK(number_in(record) == 4);
}

TEST_CASE("round record: a torn one is none, and is replaced") {
  const Folder folder;
  const RoundRecord record = folder.open();
  REQUIRE(record.write(memory_of(4), true));
  std::filesystem::resize_file(record.path(), 20);
  CHECK(number_in(record) == 0);
  REQUIRE(record.write(memory_of(5), true));
  CHECK(number_in(record) == 5);
}

TEST_CASE("round record: a good end leaves no file") {
  const Folder folder;
  const RoundRecord record = folder.open();
  REQUIRE(record.write(memory_of(4), true));
  CHECK(record.remove());
  CHECK(folder.files() == 0);
}

TEST_CASE("round record: without a folder it is off, and a failed write says where") {
  CHECK_FALSE(RoundRecord::open("/proc/none", "n1", 60s).is_on());
  const Folder folder;
  const RoundRecord record = folder.open();
  std::filesystem::remove_all(folder.path + "/a");
  const auto written = record.write(memory_of(4), true);
  REQUIRE_FALSE(written);
  CHECK_THAT(written.error().message, Catch::Contains(record.path()));
}

}  // namespace muster
