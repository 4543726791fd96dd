// SPDX-License-Identifier: Apache-2.0
#include "platform/job_hosts.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

using Hosts = std::vector<JobHost>;

Hosts hosts(std::string_view text) {
  const auto parsed = parse_job_hosts(text);
  INFO(text);
  if (!parsed) {
    FAIL(parsed.error().message);
  }
  return *parsed;
}

std::string error(std::string_view text) {
  const auto parsed = parse_job_hosts(text);
  return parsed ? "no error" : parsed.error().message;
}

}  // namespace

TEST_CASE("job hosts: names, slots and users") {
  CHECK(hosts("a") == Hosts{{"a", {}}});
  CHECK(hosts("a:4,b:2") == Hosts{{"a", 4}, {"b", 2}});
  CHECK(hosts(" a:4 , me@b-1.example.org ") == Hosts{{"a", 4}, {"me@b-1.example.org", {}}});
  CHECK(hosts("me@a")[0].name() == "a");
}

TEST_CASE("job hosts: IPv6 addresses need brackets before slots") {
  CHECK(hosts("[::1]:8,[fe80::1%eth0],fe80::2") ==
        Hosts{{"::1", 8}, {"fe80::1%eth0", {}}, {"fe80::2", {}}});
  CHECK(hosts("me@[::1]:2") == Hosts{{"me@::1", 2}});
  CHECK(error("[::1").find("not a host name") != std::string::npos);
  CHECK(error("[::1]x").find("not a host name") != std::string::npos);
}

TEST_CASE("job hosts: GPUs per machine") {
  CHECK(hosts("a:2@0,1;me@b:2@2,3") == Hosts{{"a", 2, "0,1"}, {"me@b", 2, "2,3"}});
  CHECK(hosts("a:2@0,1") == Hosts{{"a", 2, "0,1"}});
  CHECK(hosts("a:1@5;b:2") == Hosts{{"a", 1, "5"}, {"b", 2}});
  CHECK(hosts("[::1]:1@5") == Hosts{{"::1", 1, "5"}});
  for (const char* wrong : {"a:2@", "a:2@x", "a:2@0,,1", "a:2@0,1,b:2"}) {
    INFO(wrong);
    CHECK(error(wrong).find("GPUs must be numbers") != std::string::npos);
  }
}

TEST_CASE("job hosts: a range expands to hosts with equal slots") {
  CHECK(hosts("r[1-2,07]n:3,x") == Hosts{{"r1n", 3}, {"r2n", 3}, {"r07n", 3}, {"x", {}}});
  CHECK(hosts("me@r[1-2]:3") == Hosts{{"me@r1", 3}, {"me@r2", 3}});
}

TEST_CASE("job hosts: a repeated host gets more slots, in its first position") {
  CHECK(hosts("a,b,a") == Hosts{{"a", 2}, {"b", 1}});
  CHECK(hosts("a:2,b,a:3") == Hosts{{"a", 5}, {"b", 1}});
}

TEST_CASE("job hosts: rejects names that a shell or ssh could interpret") {
  for (const std::string text : {"",
                                 "a,,b",
                                 "-oProxyCommand=x",
                                 "a;b",
                                 "a b",
                                 "$(id)",
                                 "a'",
                                 "me@-x",
                                 "@a",
                                 "a@",
                                 "a/b",
                                 "-x@a",
                                 "a\nb",
                                 "me;x@a",
                                 "[1-",
                                 "a[",
                                 "]"}) {
    INFO(text);
    CHECK_FALSE(parse_job_hosts(text));
  }
  for (const std::string text : {"a:", "a:0", "a:-1", "a:+1", "a: 1", "a:x", "a:65537", "[::1]:"}) {
    INFO(text);
    CHECK(error(text).find("number of workers") != std::string::npos);
  }
  CHECK(error("a[1-5000]").find("more than 4096") != std::string::npos);
  CHECK(error("a[1-4096],b").find("more than 4096") != std::string::npos);
}

TEST_CASE("job hosts: a host file has one entry per line, as for mpirun or as PBS writes it") {
  CHECK(*parse_host_file("# all\na slots=4 max_slots=8\r\n\n  b:2 # small\nc\n") ==
        Hosts{{"a", 4}, {"b", 2}, {"c", {}}});
  CHECK(*parse_host_file("a\na\nb\n") == Hosts{{"a", 2}, {"b", 1}});
  CHECK(*parse_host_file("r[1-2]\tslots=3") == Hosts{{"r1", 3}, {"r2", 3}});
  CHECK(parse_host_file("a\nb gpus=4\n").error().message ==
        "line 2: gpus=4: expected slots=N, devices=0,1, user=NAME or port=N after a host");
  CHECK_FALSE(parse_host_file("a slots=0"));
  CHECK(parse_host_file("# none\n").error().message == "no host is listed");
}

TEST_CASE("job hosts: a line may have a user, a port and GPUs, a file a byte order mark") {
  const auto parsed = parse_host_file(
      "\xef\xbb\xbf"
      "a slots=2 devices=0,1\nb user=me port=2222\nme@c port=22\n"
      "::1 port=7\n");
  REQUIRE(parsed);
  CHECK(*parsed == Hosts{{"a", 2, "0,1"},
                         {"ssh://me@b:2222", {}},
                         {"ssh://me@c:22", {}},
                         {"ssh://[::1]:7", {}}});
  CHECK((*parsed)[1].name() == "b");
  CHECK((*parsed)[3].name() == "::1");
  for (const char* line : {"a port=0",
                           "a port=x",
                           "a port=70000",
                           "a user=-x",
                           "me@a user=b",
                           "a devices=x",
                           "a gpu=1",
                           "a port"}) {
    INFO(line);
    CHECK_FALSE(parse_host_file(line));
  }
}
