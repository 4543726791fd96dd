// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/tools.hpp"

#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/crowd.hpp"
#include "apps/muster-bench/echo.hpp"
#include "apps/muster-bench/load.hpp"
#include "apps/muster-bench/storm.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>

namespace muster::bench {
namespace {

// What all tools that talk to a server can be told.
struct Options {
  std::uint16_t port = 0;
  std::string protocol = "tcpstore";
  std::string operation = "get";
  std::size_t clients = 8;
  std::size_t depth = 1;
  std::size_t requests = 1'000'000;
  double seconds = 1;
  int cpu = -1;
};

using Shared = std::shared_ptr<Options>;

void add_server_options(CLI::App& app, const Shared& options) {
  app.add_option("--port", options->port, "the server's port on 127.0.0.1")->required();
  app.add_option("--protocol", options->protocol, "what the server speaks")
      ->check(CLI::IsMember({"tcpstore", "redis", "echo"}));
  app.add_option("--clients", options->clients, "connections");
  app.add_option("--cpu", options->cpu, "pin this process to a cpu");
}

int complain(const Error& error) {
  fmt::print(stderr, "muster-bench: {}\n", error.message);
  return 1;
}

double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

int run_load(const Options& options) {
  pin_to(options.cpu);
  LoadPlan plan;
  plan.port = options.port;
  plan.protocol = *parse_protocol(options.protocol);
  plan.operation = *parse_operation(options.operation);
  plan.clients = options.clients;
  plan.depth = options.depth;
  plan.warm_up = std::chrono::milliseconds(50);
  plan.measured =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.seconds));
  const auto rate = measure_rate(plan);
  if (!rate) {
    return complain(rate.error());
  }
  fmt::print("{:.0f} {}/s with {} clients, {} deep\n",
             *rate,
             options.operation,
             options.clients,
             options.depth);
  return 0;
}

int run_stream(const Options& options) {
  pin_to(options.cpu);
  const auto each = options.requests / options.clients;
  const auto rate =
      measure_stream({options.port, *parse_protocol(options.protocol), options.clients, each});
  if (!rate) {
    return complain(rate.error());
  }
  fmt::print("{:.0f} SETs/s from {} clients\n", *rate, options.clients);
  return 0;
}

int run_storm(const Options& options) {
  pin_to(options.cpu);
  const auto storm =
      raise_storm({options.port, *parse_protocol(options.protocol), options.clients});
  if (!storm) {
    return complain(storm.error());
  }
  fmt::print("{} clients: connected after {:.0f} ms, set and got after {:.0f} ms\n",
             options.clients,
             milliseconds(storm->connected),
             milliseconds(storm->whole));
  return 0;
}

int run_crowd(const Options& options) {
  CrowdPlan plan;
  plan.nodes = options.clients;
  const auto crowd = measure_crowd(plan);
  if (!crowd) {
    return complain(crowd.error());
  }
  fmt::print(
      "{} nodes: joined after {:.0f} ms, started after {:.0f} ms ({:.1f} messages each), again "
      "{:.0f} ms after a loss; idle: {:.2f} % of a core, {:.0f} bytes/s for each node\n",
      options.clients,
      milliseconds(crowd->joined),
      milliseconds(crowd->started),
      crowd->messages_per_node,
      milliseconds(crowd->regrouped),
      crowd->idle_share * 100,
      crowd->bytes_per_node_second);
  return 0;
}

int run_echo(const Options& options) {
  const auto served = serve_echo(options.port);
  return served ? 0 : complain(served.error());
}

}  // namespace

void add_tools(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  auto* echo = app.add_subcommand("echo", "serve the bare echo (the floor below every server)");
  echo->add_option("--port", options->port, "where to listen")->required();
  echo->callback([options, &exit_code] { exit_code = run_echo(*options); });

  auto* load = app.add_subcommand("load", "requests a second of one server");
  add_server_options(*load, options);
  load->add_option("--op", options->operation, "get, set (TCPStore: SET and CHECK) or add")
      ->check(CLI::IsMember({"get", "set", "add"}));
  load->add_option("--depth", options->depth, "requests in flight on each connection");
  load->add_option("--seconds", options->seconds, "how long to measure");
  load->callback([options, &exit_code] { exit_code = run_load(*options); });

  auto* stream = app.add_subcommand("stream", "SETs a second that nobody waits for");
  add_server_options(*stream, options);
  stream->add_option("--requests", options->requests, "SETs in all");
  stream->callback([options, &exit_code] { exit_code = run_stream(*options); });

  auto* storm = app.add_subcommand("storm", "many clients connect, set and get");
  add_server_options(*storm, options);
  storm->callback([options, &exit_code] { exit_code = run_storm(*options); });

  auto* crowd = app.add_subcommand("crowd", "many nodes join one coordinator and lose one");
  crowd->add_option("--nodes", options->clients, "connections of followers");
  crowd->callback([options, &exit_code] { exit_code = run_crowd(*options); });
}

}  // namespace muster::bench
