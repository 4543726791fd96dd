// SPDX-License-Identifier: Apache-2.0
// KernelLog: new lines of a kernel log.
#include "machine/kernel_log.hpp"

#include "support/catch.hpp"

#include <array>
#include <string_view>

#include <sys/socket.h>
#include <unistd.h>

using namespace muster;

namespace {

// Keeps the borders of records, like /dev/kmsg.
class Records {
 public:
  Records() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends.data()) == 0);
    reader = UniqueFd(ends[0]);
    writer_ = UniqueFd(ends[1]);
  }

  void add(std::string_view record) {
    REQUIRE(::write(writer_.get(), record.data(), record.size()) ==
            static_cast<ssize_t>(record.size()));
  }

  void end() { writer_.reset(); }

  UniqueFd reader;

 private:
  UniqueFd writer_;
};

}  // namespace

TEST_CASE("kernel log: the messages of new records, without their names and values") {
  Records records;
  KernelLog log(std::move(records.reader));
  CHECK(log.read_new().empty());
  records.add("4,1,7,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=42\n SUBSYSTEM=pci\n");
  records.add("6,2,8,c,caller=T1;a; b");
  records.add("broken");
  CHECK(log.read_new() ==
        std::vector<std::string>{"NVRM: Xid (PCI:0000:3b:00): 79, pid=42", "a; b", ""});
  CHECK(log.read_new().empty());
  records.end();
  CHECK(log.read_new().empty());
}

TEST_CASE("kernel log: a call reads a limited number of lines") {
  Records records;
  KernelLog log(std::move(records.reader));
  std::size_t seen = 0;
  for (std::size_t i = 0; i < 2 * kKernelLinesMax; i += 100) {
    for (int k = 0; k < 100; ++k) {
      records.add("6,1,1,-;x");
    }
    seen += log.read_new().size();
  }
  CHECK(seen == 2 * kKernelLinesMax);
}

TEST_CASE("kernel log: without a file, there are no lines") {
  CHECK(KernelLog(UniqueFd()).read_new().empty());
}
