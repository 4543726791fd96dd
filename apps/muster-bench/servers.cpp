// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/servers.hpp"

#include "apps/muster-bench/connection.hpp"
#include "apps/muster-bench/names.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include <poll.h>
#include <unistd.h>

namespace muster::bench {
namespace {

using Words = std::vector<std::string>;

constexpr auto kPatience = std::chrono::seconds(30);

constexpr auto kTorchServer =
    "import signal, sys\n"
    "from torch.distributed import TCPStore\n"
    "store = TCPStore('127.0.0.1', int(sys.argv[1]), is_master=True, wait_for_workers=False)\n"
    "signal.pause()\n";

// PyTorch's server asks the resolver about every client. To measure the server and not the
// resolver, it gets an nsswitch.conf of its own that knows files only, where we may mount one.
Words torch_words(const Peers& peers, const Scratch& scratch, const std::string& port) {
  Words plain{peers.torch_python, "-c", kTorchServer, port};
  const auto unshare = find_program("unshare", peers.environ);
  if (!unshare || geteuid() != 0) {
    return plain;
  }
  const auto nsswitch = scratch.path("nsswitch.conf");
  std::ofstream(nsswitch) << "passwd: files\ngroup: files\nhosts: files\n";
  Words words{*unshare,
              "--mount",
              "/bin/sh",
              "-c",
              "mount --bind \"$0\" /etc/nsswitch.conf; exec \"$@\"",
              nsswitch};
  words.insert(words.end(), plain.begin(), plain.end());
  return words;
}

Words redis_words(const Peers& peers, const Scratch& scratch, const std::string& port) {
  return {peers.redis,
          "--port",
          port,
          "--bind",
          "127.0.0.1",
          "--save",
          "",
          "--appendonly",
          "no",
          "--maxclients",
          "15000",
          "--tcp-backlog",
          "4096",
          "--dir",
          scratch.path("."),
          "--logfile",
          "/dev/null"};
}

bool answers(std::uint16_t port) {
  const auto deadline = steady_now() + kPatience;
  while (steady_now() < deadline) {
    if (connect_to(port)) {
      return true;
    }
    poll(nullptr, 0, 20);  // other people's servers do not say when they are ready
  }
  return false;
}

using Commander = Words (*)(const Peers&, const Scratch&, const std::string& port);

Server start(Server server, const Words& words, const Peers& peers, int cpu) {
  auto child = Child::start({words, peers.environ, -1, -1, cpu});
  if (!child) {
    server.missing = "failed";
    fmt::print(stderr, "    {}: {}\n", server.name, child.error().message);
    return server;
  }
  server.child = std::make_unique<Child>(std::move(*child));
  if (!answers(server.port)) {
    server.child.reset();
    server.missing = "failed";
  }
  return server;
}

Words muster_words(const Peers& peers, const Scratch&, const std::string& port) {
  return {peers.muster_store, "--bind", "127.0.0.1", "--port", port};
}

Words echo_words(const Peers& peers, const Scratch&, const std::string& port) {
  return {peers.self, "echo", "--port", port};
}

struct Kind {
  std::string name;
  Protocol protocol;
  std::string program;
  Commander words;
};

}  // namespace

double Server::memory() const {
  return child ? static_cast<double>(memory_kib(child->pid(), "VmRSS")) * 1024 : 0;
}

std::vector<Server> start_servers(const Peers& peers, const Scratch& scratch, int cpu) {
  const std::vector<Kind> kinds{
      {names::kStore, Protocol::tcpstore, peers.muster_store, muster_words},
      {names::kTorchStore, Protocol::tcpstore, peers.torch_python, torch_words},
      {names::kRedis, Protocol::redis, peers.redis, redis_words},
      {names::kEcho, Protocol::echo, peers.self, echo_words}};
  std::vector<Server> servers;
  for (const auto& kind : kinds) {
    Server server{kind.name, kind.protocol, free_port().value_or(0), nullptr, ""};
    if (kind.program.empty()) {
      server.missing = "not installed";
      servers.push_back(std::move(server));
      continue;
    }
    const auto words = kind.words(peers, scratch, std::to_string(server.port));
    servers.push_back(start(std::move(server), words, peers, cpu));
  }
  return servers;
}

}  // namespace muster::bench
