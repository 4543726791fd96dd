// SPDX-License-Identifier: Apache-2.0
#include "platform/host_filter.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

using Hosts = std::vector<JobHost>;

const Hosts kTwo{{"worker-0", 4}, {"worker-1", 4}};

Hosts include(const std::string& text, const Hosts& hosts = kTwo) {
  return filter_hosts(hosts, HostFilter::include, text).value();
}

Hosts exclude(const std::string& text, const Hosts& hosts = kTwo) {
  return filter_hosts(hosts, HostFilter::exclude, text).value();
}

std::string error(HostFilter filter, const std::string& text, const Hosts& hosts = kTwo) {
  const auto out = filter_hosts(hosts, filter, text);
  REQUIRE_FALSE(out);
  CHECK(out.error().code == Errc::usage);
  return out.error().message;
}

}  // namespace

TEST_CASE("host filter: DeepSpeed's own examples") {
  CHECK(include("worker-0@worker-1:0,2") == Hosts{{"worker-0", 4}, {"worker-1", 2, "0,2"}});
  CHECK(exclude("worker-1:0") == Hosts{{"worker-0", 4}, {"worker-1", 3, "1,2,3"}});
}

TEST_CASE("host filter: whole machines, in the order of --hosts") {
  CHECK(include("worker-1@worker-0") == kTwo);
  CHECK(include("worker-1") == Hosts{{"worker-1", 4}});
  CHECK(exclude("worker-1") == Hosts{{"worker-0", 4}});
  CHECK(exclude("worker-1:0,1,2,3") == Hosts{{"worker-0", 4}});
}

TEST_CASE("host filter: slots in any order, duplicate slots, and slots of a repeated machine") {
  CHECK(include("worker-0:3, 1,3") == Hosts{{"worker-0", 2, "1,3"}});
  CHECK(include("worker-0:3 @ worker-0:1") == Hosts{{"worker-0", 2, "1,3"}});
  CHECK(include("worker-0:3@worker-0") == Hosts{{"worker-0", 4}});
  CHECK(exclude("worker-0@worker-0:3") == Hosts{{"worker-1", 4}});
}

TEST_CASE("host filter: a slot is a GPU number if the machine has a list of GPUs") {
  const Hosts listed{{"a", 2, "4,6"}, {"b", {}, "1,2,3"}};
  CHECK(include("a:6@b:1,3", listed) == Hosts{{"a", 1, "6"}, {"b", 2, "1,3"}});
  CHECK(exclude("a:6@b:1", listed) == Hosts{{"a", 1, "4"}, {"b", 2, "2,3"}});
  CHECK(error(HostFilter::include, "a:0", listed) == "a:0: a has no such slot; its slots are 4,6");
  CHECK(error(HostFilter::include, "a:0", {{"a", 4, "0,1"}}) ==
        "a: has 4 workers on 2 GPUs; slots require one GPU per worker");
}

TEST_CASE("host filter: without a number of workers, GPUs can be included but not excluded") {
  const Hosts open{{"a", {}}};
  CHECK(include("a:0,7", open) == Hosts{{"a", 2, "0,7"}});
  CHECK(error(HostFilter::exclude, "a:0", open) ==
        "a: the number of its slots is unknown. Set it with NAME:N in --hosts");
}

TEST_CASE("host filter: matches the machine's name without user, port and brackets") {
  const Hosts hosts{{"me@a", 2}, {"ssh://me@b:2222", 2}, {"fe80::1:2", 2}};
  CHECK(include("a:1@b", hosts) == Hosts{{"me@a", 1, "1"}, {"ssh://me@b:2222", 2}});
  CHECK(include("fe80::1:2", hosts) == Hosts{{"fe80::1:2", 2}});
  CHECK(include("[fe80::1:2]", hosts) == Hosts{{"fe80::1:2", 2}});
  CHECK(include("[fe80::1:2]:0", hosts) == Hosts{{"fe80::1:2", 1, "0"}});
}

TEST_CASE("host filter: an error names unknown machines and slots") {
  CHECK(error(HostFilter::include, "worker-2") ==
        "worker-2: no host in --hosts or --hostfile has this name");
  CHECK(error(HostFilter::exclude, "worker-2:0").starts_with("worker-2:0: no host"));
  CHECK(error(HostFilter::include, "worker-1:0,4") ==
        "worker-1:4: worker-1 has no such slot; its slots are 0 to 3");
  CHECK(error(HostFilter::exclude, "worker-1:4") ==
        "worker-1:4: worker-1 has no such slot; its slots are 0 to 3");
  for (const std::string text : {"worker-0:",
                                 "worker-0:x",
                                 "worker-0:0,",
                                 "worker-0:-1",
                                 "worker-0:99999999999",
                                 "worker-0:65536"}) {
    INFO(text);
    CHECK(error(HostFilter::include, text).contains("slots must be GPU indices"));
  }
  for (const std::string text : {"", "@", "worker-0@", ":0"}) {
    INFO(text);
    CHECK(error(HostFilter::include, text).contains("no host in --hosts"));
  }
}

TEST_CASE("host filter: rejects a job without machines") {
  CHECK(error(HostFilter::exclude, "worker-0@worker-1:0,1,2,3") == "no host remains");
}
