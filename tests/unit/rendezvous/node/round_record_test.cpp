// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/round_record.hpp"

#include "rendezvous/node/record_file.hpp"
#include "rendezvous/node/record_keeper.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>
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

const std::string kKey(64, 'a');
const std::string kOtherKey(64, 'b');

std::uint64_t number_in(const RoundRecord& record) {
  const auto memory = record.read().memory;
  return memory ? memory->accepted->id.number : 0;
}

}  // namespace

TEST_CASE("round record: an agent reads what its predecessor wrote") {
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

TEST_CASE("round record: the job key is kept with the rounds") {
  const Folder folder;
  const auto record = std::make_shared<const RoundRecord>(folder.open());
  asio::io_context loop;
  RecordKeeper keeper(loop, record, [](LogLevel, const std::string&) {});
  const auto key_in = [&] { return record->read().memory.value_or(memory_of(0)).job_key; };
  keeper.keep_job_key(kKey);
  CHECK_FALSE(record->read().memory);  // there is no round yet
  static_cast<void>(keeper.keep(RecordRound{memory_of(4)}));
  CHECK(key_in() == kKey);
  static_cast<void>(keeper.keep(RecordRound{memory_of(5)}));
  CHECK(key_in() == kKey);
  CHECK(number_in(*record) == 5);
  keeper.keep_job_key(kOtherKey);  // from a leader that has a different key
  CHECK(key_in() == kOtherKey);
  CHECK(number_in(*record) == 5);

  struct stat facts {};

  REQUIRE(::stat(record->path().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777U) == 0600U);
}

TEST_CASE("round record: is not read while its agent or guard is running") {
  const Folder folder;
  auto first = std::make_unique<RoundRecord>(folder.open());
  REQUIRE(first->write(memory_of(4), true));
  const RoundRecord second = folder.open();
  REQUIRE(second.is_on());
  CHECK(second.path() != first->path());
  CHECK(number_in(second) == 0);
  REQUIRE(second.write(memory_of(6), true));
  first.reset();
  CHECK(number_in(folder.open()) == 4);  // not a new file
}

TEST_CASE("round record: one that was not updated for long is ignored") {
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
  CHECK(record.read().is_stale);
  CHECK_THAT(record.read().ignored, Catch::Contains(" s old, which exceeds join_timeout"));
  record.touch();
  CHECK(number_in(record) == 4);
}

TEST_CASE("round record: a truncated one is ignored and replaced") {
  const Folder folder;
  const RoundRecord record = folder.open();
  REQUIRE(record.write(memory_of(4), true));
  std::filesystem::resize_file(record.path(), 20);
  CHECK(number_in(record) == 0);
  CHECK(record.read().ignored == record.path() + " is truncated or corrupt");
  CHECK_FALSE(record.read().is_stale);
  REQUIRE(record.write(memory_of(5), true));
  CHECK(number_in(record) == 5);
}

TEST_CASE("round record: a normal exit leaves no file") {
  const Folder folder;
  const RoundRecord record = folder.open();
  REQUIRE(record.write(memory_of(4), true));
  record.remove();
  CHECK(folder.files() == 0);
}

TEST_CASE("round record: a discarded record's slot stays locked") {
  const Folder folder;
  const RoundRecord record = folder.open();
  REQUIRE(record.write(memory_of(4), true));
  CHECK(record.discard());
  CHECK(number_in(record) == 0);
  CHECK(folder.open().path() != record.path());
}

TEST_CASE("round record: once a day removes files of jobs that were killed a month ago") {
  const Folder folder;
  const std::string stamp = folder.path + "/a/b.swept";
  const auto old = std::filesystem::file_time_type::clock::now() - 31 * 24h;
  const auto age = [&](const RoundRecord& record) {
    for (const std::string& path : {record.path(), record.path() + ".lock"}) {
      std::filesystem::last_write_time(path, old);
    }
  };
  const auto make = [&](const char* name) {
    RoundRecord record = RoundRecord::open(folder.path + "/a/b", name, 600s);
    REQUIRE(record.write(memory_of(4), true));
    return record;
  };
  age(make("killed"));
  static_cast<void>(make("recent"));
  const RoundRecord held = make("held");
  age(held);
  CHECK(folder.open().is_on());
  CHECK(std::filesystem::exists(folder.path + "/a/b/killed.0"));
  std::filesystem::last_write_time(stamp, std::filesystem::file_time_type::clock::now() - 25h);
  CHECK(folder.open().is_on());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path + "/a/b")) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{
                     "held.0", "held.0.lock", "n1.0.lock", "recent.0", "recent.0.lock"});
}

TEST_CASE("round record: ignores the record of another job or host") {
  const Folder folder;
  const RoundRecord theirs = RoundRecord::open(folder.path + "/a/b", "n2", 600s);
  REQUIRE(theirs.write(memory_of(4), true));
  const RoundRecord record = folder.open();
  std::filesystem::copy_file(theirs.path(), record.path());
  CHECK(number_in(record) == 0);
  CHECK(record.read().ignored == record.path() + " is the record of n2, not of n1");
}

TEST_CASE("round record: reads only regular files of this user, up to a maximum length") {
  const Folder folder;
  const std::string path = folder.path + "/file";
  const auto why = [&](std::size_t most = 10) {
    const auto read = read_state_file(path, most);
    return read ? "" : read.error().message;
  };
  CHECK(why() == path + " does not exist");
  std::ofstream(path) << "0123456789";
  CHECK(why().empty());
  CHECK(why(9) == path + " is longer than 9 bytes");
  std::filesystem::rename(path, path + "2");
  std::filesystem::create_symlink(path + "2", path);
  CHECK_THAT(why(), Catch::Contains("Too many levels of symbolic links"));
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(why() == path + " is not a regular file");
}

TEST_CASE("round record: does not read another user's file") {
  const Folder folder;
  std::string path = "/etc/passwd";  // root's
  if (::geteuid() == 0) {
    path = folder.path + "/file";
    std::ofstream(path) << "theirs";
    REQUIRE(::chown(path.c_str(), 1, 1) == 0);
  }
  const auto read = read_state_file(path, 1 << 20);
  REQUIRE_FALSE(read);
  CHECK_THAT(read.error().message, Catch::Contains("belongs to uid"));
  CHECK_FALSE(lock_state_file(path));
}

TEST_CASE("round record: creates nothing in a folder that belongs to another user") {
  if (::geteuid() != 0) {
    WARN("skipped: needs root to change a folder's owner");
    return;
  }
  const Folder folder;
  REQUIRE(::chown(folder.path.c_str(), 54321, 54321) == 0);
  const RoundRecord record = folder.open();
  CHECK_FALSE(record.is_on());
  CHECK(record.trouble().ends_with("belongs to uid 54321"));
  CHECK_FALSE(std::filesystem::exists(folder.path + "/a"));
}

TEST_CASE(
    "round record: disabled without a folder, and an error names the path of a failed write") {
  const RoundRecord off = RoundRecord::open("/proc/none", "n1", 60s);
  CHECK_FALSE(off.is_on());
  CHECK(off.trouble() == "cannot create /proc/none: No such file or directory");
  const Folder folder;
  const RoundRecord record = folder.open();
  std::filesystem::remove_all(folder.path + "/a");
  const auto written = record.write(memory_of(4), true);
  REQUIRE_FALSE(written);
  CHECK_THAT(written.error().message, Catch::Contains(record.path()));
}

}  // namespace muster
