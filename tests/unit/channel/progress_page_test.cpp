// SPDX-License-Identifier: Apache-2.0
#include "worker/channel/progress_page.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"

#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace muster;
using namespace muster::channel;

namespace {

constexpr TimePoint at(std::int64_t seconds) {
  return TimePoint(std::chrono::seconds(seconds));
}

UniqueFd copy_of(int fd) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

}  // namespace

TEST_CASE("progress page: the agent loads what the worker stores") {
  auto agent = ProgressPage::make();
  REQUIRE(agent);
  CHECK_FALSE(agent->load(at(1), at(9)));
  auto worker = ProgressPage::map(copy_of(agent->fd()));
  REQUIRE(worker);
  worker->store(0, at(4));
  CHECK(agent->load(at(1), at(9)) == StepTold{0, at(4)});
  const ProgressPage moved = std::move(*agent);
  worker->store(UINT64_MAX, at(5));
  CHECK(moved.load(at(1), at(9)) == StepTold{UINT64_MAX, at(5)});
}

TEST_CASE("progress page: an impossible time becomes the nearest possible one") {
  auto page = ProgressPage::make();
  REQUIRE(page);
  page->store(3, TimePoint(Duration(-1)));  // the maximum number of nanoseconds
  CHECK(page->load(at(1), at(9)) == StepTold{3, at(9)});
  page->store(3, TimePoint(Duration(1)));
  CHECK(page->load(at(1), at(9)) == StepTold{3, at(1)});
}

TEST_CASE("progress page: the agent reads the numbers that the worker stores") {
  auto page = ProgressPage::make();
  REQUIRE(page);
  CHECK(page->numbers().empty());
  CHECK(page->store_number("loss", 2.5));
  CHECK(page->store_number("a-name_of/24.characters0", -1e300));
  CHECK(page->store_number("loss", 0.25));
  CHECK(page->numbers() ==
        std::vector<NamedNumber>{{"loss", 0.25}, {"a-name_of/24.characters0", -1e300}});
  for (const char* const wrong :
       {"", "a name", "<b>", "a-name_of/25.characters00", "n\xc3\xa4me"}) {
    CHECK_FALSE(page->store_number(wrong, 1));
  }
  for (int i = 2; i < static_cast<int>(kNumbersMax); ++i) {
    CHECK(page->store_number("n" + std::to_string(i), i));
  }
  CHECK_FALSE(page->store_number("ninth", 9));
  CHECK(page->store_number("n7", 70));
  CHECK(page->numbers().size() == kNumbersMax);
  CHECK(page->numbers().back() == NamedNumber{"n7", 70});
}

TEST_CASE("progress page: a worker may write anything where numbers are expected") {
  auto page = ProgressPage::make();
  REQUIRE(page);
  void* const bytes =
      ::mmap(nullptr, kProgressPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, page->fd(), 0);
  REQUIRE(bytes != MAP_FAILED);
  std::memset(bytes, 0xff, kProgressPageBytes);
  CHECK(page->numbers().empty());
  CHECK_FALSE(page->store_number("loss", 1));
  std::memset(bytes, 'x', kProgressPageBytes);
  REQUIRE(page->numbers().size() == kNumbersMax);
  CHECK(page->numbers()[0].name == std::string(kNumberNameBytesMax, 'x'));
  std::memset(bytes, '<', kProgressPageBytes);
  CHECK(page->numbers().empty());
  ::munmap(bytes, kProgressPageBytes);
}

TEST_CASE("progress page: the longest time between two steps") {
  auto page = ProgressPage::make();
  REQUIRE(page);
  page->store(1, at(4));
  CHECK(page->longest_pause() == Duration{});
  page->store(2, at(7));
  page->store(3, at(8));
  page->store(2, at(7));  // another thread has read the clock before
  CHECK(page->longest_pause() == std::chrono::seconds(3));
  page->store(4, TimePoint(Duration(-1)));
  CHECK(page->longest_pause() == kPauseMax);
}

TEST_CASE("progress page: a worker sees a notice at its next poll") {
  auto agent = ProgressPage::make();
  REQUIRE(agent);
  auto worker = ProgressPage::map(copy_of(agent->fd()));
  REQUIRE(worker);
  CHECK_FALSE(agent->polls());
  worker->announce_polls();
  CHECK(agent->polls());
  CHECK_FALSE(worker->poll());
  CHECK_FALSE(worker->deadline());
  agent->give_notice(at(40));
  CHECK(worker->poll());
  CHECK(worker->deadline() == at(40));
}

TEST_CASE("progress page: polls count as steps until the program reports its own") {
  auto page = ProgressPage::make();
  REQUIRE(page);
  CHECK_FALSE(page->step());
  for (const std::uint64_t step : {0U, 1U}) {
    static_cast<void>(page->poll());
    CHECK(page->step() == step);
  }
  page->store(1000, steady_now() + std::chrono::nanoseconds(1));
  for (int i = 0; i < 2; ++i) {
    static_cast<void>(page->poll());
    CHECK(page->step() == 1000U);
  }
}

TEST_CASE("progress page: the steps of a program that reports them first stay as they are") {
  auto page = ProgressPage::make();
  REQUIRE(page);
  page->store(7, at(1));
  static_cast<void>(page->poll());
  CHECK(page->load(at(1), at(9)) == StepTold{7, at(1)});
}

TEST_CASE("progress page: a worker can neither shrink nor seal it") {
  const auto page = ProgressPage::make();
  REQUIRE(page);
  CHECK(::ftruncate(page->fd(), 0) == -1);
  CHECK(::ftruncate(page->fd(), 2 * kProgressPageBytes) == -1);
  CHECK(::fcntl(page->fd(), F_ADD_SEALS, F_SEAL_WRITE) == -1);
}

TEST_CASE("progress page: does not map a descriptor that is not a page") {
  CHECK_FALSE(ProgressPage::map(UniqueFd(::memfd_create("small", MFD_CLOEXEC))));
  CHECK_FALSE(ProgressPage::map(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))));
  CHECK_FALSE(ProgressPage::map(UniqueFd()));
}
