// SPDX-License-Identifier: Apache-2.0
#include "agent/rounds/named_hosts.hpp"

#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <sys/prctl.h>

using namespace muster;

namespace {

// FirstUse creates a key and therefore makes /proc/self unreadable; later tests in this program
// read it.
struct Visible {
  Visible() = default;
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;

  ~Visible() { static_cast<void>(::prctl(PR_SET_DUMPABLE, 1)); }
};

// The limit for a job with these hosts.
std::shared_ptr<FirstUse> limited_to(const std::vector<std::string>& names) {
  const Visible afterwards;
  asio::io_context loop;
  auto first_use = std::make_shared<FirstUse>("job");
  NamedHosts hosts(loop, {{names, "PBS_NODEFILE"}}, first_use);
  int times = 0;
  hosts.when_found([&times] { ++times; });
  loop.run();
  CHECK(times == 1);
  return first_use;
}

}  // namespace

TEST_CASE("named hosts: resolves the addresses of all of them") {
  std::vector<std::string> names;
  for (int i = 1; i <= 100; ++i) {  // more than the number of concurrent lookups
    names.push_back("192.0.2." + std::to_string(i));
  }
  const auto first_use = limited_to(names);
  CHECK(first_use->named_by() == "PBS_NODEFILE");
  CHECK(first_use->is_named("192.0.2.100"));
  CHECK_FALSE(first_use->is_named("192.0.2.101"));
}

TEST_CASE("named hosts: a host that cannot be resolved lifts the limit") {
  std::vector<std::string> names(100, "192.0.2.1");
  names[1] = "not a name";
  const auto first_use = limited_to(names);
  CHECK(first_use->named_by().empty());
  CHECK(first_use->is_named("192.0.2.7"));
  CHECK_THAT(first_use->why_unlimited(),
             Catch::StartsWith("cannot resolve the hosts in PBS_NODEFILE: "));
}

TEST_CASE("named hosts: no list of hosts, or no trust on first use") {
  const Visible afterwards;
  asio::io_context loop;
  int times = 0;
  NamedHosts none(loop, std::nullopt, std::make_shared<FirstUse>("job"));
  none.when_found([&times] { ++times; });
  NamedHosts token(loop, {{{"node1"}, "PBS_NODEFILE"}}, nullptr);
  token.when_found([&times] { ++times; });
  // A pod that replaces another has an address that is not in the list.
  const auto open = std::make_shared<FirstUse>("job", FirstUse::Admits::always);
  NamedHosts pods(loop, {{{"192.0.2.1"}, "VC_WORKER_HOSTS"}}, open);
  pods.when_found([&times] { ++times; });
  CHECK(times == 3);
  CHECK(open->is_named("192.0.2.2"));
}
