// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/files.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "support/catch.hpp"

#include <array>
#include <string>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace muster;
using namespace std::chrono_literals;

namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }

  ~TemporaryFolder() {
    ::unlink(file().c_str());
    ::rmdir(path_.data());
  }

  [[nodiscard]] std::string file() const { return std::string(path_.data()) + "/file"; }

 private:
  std::array<char, 32> path_{"/tmp/muster_files_test_XXXXXX"};
};

}  // namespace

TEST_CASE("files: reads a file back up to the limit") {
  const TemporaryFolder folder;
  REQUIRE(write_file(folder.file(), "hello"));
  CHECK(read_some(folder.file(), 100) == "hello");
  CHECK(read_some(folder.file(), 2) == "he");
  REQUIRE(write_file(folder.file(), "x"));
  CHECK(read_some(folder.file(), 100) == "x");
}

TEST_CASE("files: reading anything but a regular file returns nothing and does not block") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo(folder.file().c_str(), 0600) == 0);
  CHECK(read_some(folder.file(), 100).empty());
  CHECK(read_some("/dev/zero", 100).empty());
  CHECK(read_some("/", 100).empty());
  CHECK(read_some("/no/such/file", 100).empty());
}

TEST_CASE("files: an error names the path that cannot be written, and the reason") {
  const auto written = write_file("/no/such/folder/file", "x");
  REQUIRE_FALSE(written);
  CHECK(written.error().message.find("/no/such/folder/file") != std::string::npos);
}
