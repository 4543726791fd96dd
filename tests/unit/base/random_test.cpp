// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"

#include "support/catch.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <set>
#include <string>
#include <thread>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>

using namespace muster;

namespace {

// Makes getrandom(2) fail with EPERM in this thread. False if seccomp filters are not allowed.
bool refuse_getrandom() {
  std::array<sock_filter, 4> code{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                   {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getrandom},
                                   {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                                   {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog program{code.size(), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST_CASE("random: returns the requested number of digits, different ones each time") {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string one = random_hex(16);
    CHECK(one.size() == 32);
    CHECK(one.find_first_not_of("0123456789abcdef") == std::string::npos);
    seen.insert(one);
  }
  CHECK(seen.size() == 100);
  CHECK(random_hex(0).empty());
}

TEST_CASE("random: uses /dev/urandom if getrandom is not permitted") {
  bool filtered = false;
  ssize_t direct = 0;
  std::set<std::string> seen;
  std::thread([&] {
    filtered = refuse_getrandom();
    char byte = 0;
    direct = ::getrandom(&byte, 1, 0);
    for (int i = 0; i < 10; ++i) {
      seen.insert(random_hex(16));
    }
  }).join();
  if (!filtered) {
    WARN("skipped: seccomp filters are not permitted");
    return;
  }
  CHECK(direct == -1);
  CHECK(seen.size() == 10);
}
