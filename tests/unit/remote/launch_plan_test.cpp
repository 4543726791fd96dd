// SPDX-License-Identifier: Apache-2.0
#include "remote/launch_plan.hpp"

#include "support/catch.hpp"

#include <algorithm>

using namespace muster;

namespace {

using Words = std::vector<std::string>;

HostsRequest request() {
  HostsRequest out;
  out.hosts = {{"a", 4}, {"me@b", {}}};
  out.rsh = {"ssh", "-x"};
  out.muster = "/opt/my tools/muster";
  out.fanout = 32;
  out.nodes_min = 2;
  out.options = {"--max-restarts=3"};
  out.program = {"train.py", "--lr=1"};
  out.rdzv_id = "job";
  return out;
}

// Exactly one other host starts each host, and it was started earlier.
void check_tree(std::size_t first, std::size_t end, std::size_t fanout, std::vector<int>& started) {
  const auto parts = branches(first, end, fanout);
  CHECK(parts.size() <= fanout);
  std::size_t at = first;
  for (const Branch& part : parts) {
    CHECK(part.head == at);
    CHECK(part.end > part.head);
    at = part.end;
    ++started[part.head];
    check_tree(part.head + 1, part.end, fanout, started);
  }
  CHECK(at == end);
}

}  // namespace

TEST_CASE("launch plan: a tree reaches each machine once") {
  for (const std::size_t count : {1U, 2U, 32U, 33U, 256U, 4096U}) {
    for (const std::size_t fanout : {1U, 2U, 32U, 5000U}) {
      if (fanout == 1 && count > 300) {
        continue;  // a chain
      }
      std::vector<int> started(count, 0);
      check_tree(0, count, fanout, started);
      CHECK(std::ranges::count(started, 1) == static_cast<std::ptrdiff_t>(count));
    }
  }
  CHECK(branches(0, 5, 2) == std::vector<Branch>{{0, 2}, {2, 5}});
  CHECK(branches(3, 3, 2).empty());
}

TEST_CASE("launch plan: the remote command is one word that every shell reads alike") {
  const std::string command = remote_command("/opt/my tools/muster");
  CHECK(command == "exec '/opt/my tools/muster' --remote-agent");
  CHECK(rsh_argv({"ssh", "-x"}, "me@b", command) == Words{"ssh", "-x", "me@b", command});
  CHECK(quoted(Words{"ssh", "b", command}) ==
        R"(ssh b 'exec '\''/opt/my tools/muster'\'' --remote-agent')");
}

TEST_CASE("launch plan: each agent gets its node rank, its slots and the endpoint") {
  CHECK(agent_args(request(), 0, "a:7") == Words{"--max-restarts=3",
                                                 "--nproc-per-node=4",
                                                 "--nnodes=2:2",
                                                 "--node-rank=0",
                                                 "--rdzv-backend=c10d",
                                                 "--rdzv-endpoint=a:7",
                                                 "--rdzv-id=job",
                                                 "--rdzv-conf=is_host=true",
                                                 "--platform=none",
                                                 "--stdin-rank=none",
                                                 "--",
                                                 "train.py",
                                                 "--lr=1"});
  HostsRequest changed = request();
  changed.rdzv_conf = "lease=2";
  changed.label = true;
  changed.nodes_min = 1;
  const Words second = agent_args(changed, 1, "a:7");
  for (const std::string word : {"--nnodes=1:2",
                                 "--node-rank=1",
                                 "--rdzv-conf=lease=2,is_host=false",
                                 "--log-line-prefix-template=[b:${rank}]:"}) {
    INFO(word);
    CHECK(std::ranges::count(second, word) == 1);
  }
}

TEST_CASE("launch plan: a token arrives on standard input, never on a command line") {
  HostsRequest changed = request();
  CHECK(std::ranges::count(agent_args(changed, 1, "a:7"), "--token-file=/dev/stdin") == 0);
  changed.sends_token = true;
  CHECK(std::ranges::count(agent_args(changed, 1, "a:7"), "--token-file=/dev/stdin") == 1);
}

TEST_CASE("launch plan: a single machine needs no rendezvous") {
  HostsRequest alone = request();
  alone.hosts.resize(1);
  CHECK(agent_args(alone, 0, "") == Words{"--max-restarts=3",
                                          "--nproc-per-node=4",
                                          "--platform=none",
                                          "--stdin-rank=none",
                                          "--",
                                          "train.py",
                                          "--lr=1"});
  CHECK_FALSE(setup_for(alone, {0, 1}).binds);
}

TEST_CASE("launch plan: only the first machine reserves a port, and only if none was given") {
  CHECK(setup_for(request(), {0, 2}).binds);
  CHECK(setup_for(request(), {0, 2}).targets == Words{"me@b"});
  CHECK_FALSE(setup_for(request(), {1, 2}).binds);
  HostsRequest given = request();
  given.rdzv_endpoint = "head:29400";
  CHECK_FALSE(setup_for(given, {0, 2}).binds);
  CHECK(endpoint_of(given, {"", "10.0.0.1", 7}, "") == "head:29400");
  const Words args = agent_args(given, 0, "head:29400");
  CHECK(std::ranges::none_of(
      args, [](const std::string& word) { return word.find("is_host") != word.npos; }));
}

TEST_CASE("launch plan: the endpoint is where the first machine was reached, never loopback") {
  CHECK(endpoint_of(request(), {"", "10.0.0.1", 7}, "") == "10.0.0.1:7,a:7");
  CHECK(endpoint_of(request(), {"", "fd00::1", 7}, "") == "[fd00::1]:7,a:7");
  CHECK(endpoint_of(request(), {"", "", 7}, "") == "a:7");
  CHECK(endpoint_of(request(), {"", "127.0.0.1", 7}, "") == "a:7");
  HostsRequest here = request();
  here.hosts[0].target = "localhost";
  CHECK(endpoint_of(here, {"", "::1", 7}, "") == "");
  CHECK(endpoint_of(here, {"", "10.0.0.1", 7}, "") == "10.0.0.1:7");
  here.hosts = {{"127.0.0.1", 1}, {"me@127.0.0.2", 1}};
  CHECK(endpoint_of(here, {"", "", 7}, "") == "127.0.0.1:7");
  HostsRequest local = request();  // another host knows our address
  local.hosts[0].is_local = true;
  CHECK(endpoint_of(local, {"", "198.51.100.1", 7}, "10.0.0.1") == "10.0.0.1:7,a:7");
  CHECK(endpoint_of(local, {"", "198.51.100.1", 7}, "") == "a:7");
}

TEST_CASE("launch plan: a shell starts this machine's agent, without settings in its environment") {
  HostsRequest here = request();
  here.hosts[0].is_local = true;
  here.settings = {"MUSTER_HOSTS", "PET_NNODES"};
  CHECK(start_argv(here, here.hosts[0]) ==
        Words{"/bin/sh", "-c", "exec '/opt/my tools/muster' --remote-agent"});
  CHECK(start_argv(here, here.hosts[1]) ==
        Words{"ssh", "-x", "me@b", "exec '/opt/my tools/muster' --remote-agent"});
  Environ ours;
  ours.set("MUSTER_HOSTS", "a,b");
  ours.set("PET_NNODES", "2");
  ours.set("HOME", "/home/me");
  CHECK_FALSE(start_environ(here, here.hosts[0], ours).get("MUSTER_HOSTS"));
  CHECK_FALSE(start_environ(here, here.hosts[0], ours).get("PET_NNODES"));
  CHECK(start_environ(here, here.hosts[0], ours).get("HOME") == "/home/me");
  CHECK(start_environ(here, here.hosts[1], ours).get("MUSTER_HOSTS") == "a,b");
}

TEST_CASE("launch plan: each machine gets its GPUs") {
  HostsRequest given = request();
  given.hosts[1].devices = "2,3";
  const Words args = agent_args(given, 1, "x:1");
  CHECK(std::ranges::count(args, "--devices=2,3") == 1);
  CHECK(std::ranges::none_of(agent_args(given, 0, "x:1"), [](const std::string& word) {
    return word.starts_with("--devices");
  }));
}

TEST_CASE("launch plan: the explanation has one line per machine and prints no values") {
  HostsRequest secret = request();
  secret.environment = {{"TOKEN", "sesame"}};
  secret.rdzv_conf = "lease=5,password=sesame";
  const std::string text = describe_hosts(secret);
  CHECK(text.find("host 1: b\n  ssh -x me@b 'exec ") != std::string::npos);
  CHECK(text.find("forwarded variables: TOKEN\n") != std::string::npos);
  CHECK(text.find("--rdzv-conf=lease=5,password=***,is_host=true") != std::string::npos);
  CHECK(text.find("sesame") == std::string::npos);
}
