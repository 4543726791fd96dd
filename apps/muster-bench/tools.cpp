// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/tools.hpp"

#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/crowd.hpp"
#include "apps/muster-bench/delays.hpp"
#include "apps/muster-bench/echo.hpp"
#include "apps/muster-bench/load.hpp"
#include "apps/muster-bench/ports.hpp"
#include "apps/muster-bench/record_cost.hpp"
#include "apps/muster-bench/scrape.hpp"
#include "apps/muster-bench/storm.hpp"
#include "apps/muster-bench/timing.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include <unistd.h>

namespace muster::bench {
namespace {

// Options of all tools.
struct Options {
  std::uint16_t port = 0;
  std::string protocol = "tcpstore";
  std::string operation = "get";
  std::size_t clients = 8;
  std::size_t depth = 1;
  std::size_t requests = 1'000'000;
  double seconds = 1;
  int cpu = -1;
  // For `time`.
  int repeat = 1;
  int timeout_seconds = 120;
  bool drain = false;
  bool sealed = false;  // for `crowd`
  // For `ports`.
  std::uint16_t last_port = 0;
  bool probed = false;
  // For `scrape`.
  std::string path = "/metrics";
  std::string folder;  // for `record`
  double rate = 1000;
  std::vector<std::string> command;
};

using Shared = std::shared_ptr<Options>;

void add_server_options(CLI::App& app, const Shared& options) {
  app.add_option("--port", options->port, "the server's port on 127.0.0.1")->required();
  app.add_option("--protocol", options->protocol, "protocol of the server")
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
  fmt::print("{{\"rate\": {}}}\n", *rate);
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
  fmt::print("{{\"rate\": {}}}\n", *rate);
  return 0;
}

int run_storm(const Options& options) {
  pin_to(options.cpu);
  const auto storm =
      raise_storm({options.port, *parse_protocol(options.protocol), options.clients});
  if (!storm) {
    return complain(storm.error());
  }
  fmt::print("{{\"connected_ms\": {}, \"whole_ms\": {}}}\n",
             milliseconds(storm->connected),
             milliseconds(storm->whole));
  return 0;
}

// Holds greeted connections until its standard input is closed.
int run_hold(const Options& options) {
  pin_to(options.cpu);
  const auto held = open_idle({options.port, *parse_protocol(options.protocol), options.clients});
  if (!held) {
    return complain(held.error());
  }
  fmt::print("{{\"connections\": {}}}\n", held->size());
  static_cast<void>(std::fflush(stdout));
  char ignored = 0;
  while (read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  return 0;
}

// "a 1 ::: b 2": two programs.
TimingPlan timing_plan(const Options& options) {
  TimingPlan plan{{{}}, options.timeout_seconds * 1000, options.drain};
  for (const auto& word : options.command) {
    if (word == ":::") {
      plan.programs.emplace_back();
    } else {
      plan.programs.back().push_back(word);
    }
  }
  return plan;
}

// Prints the start time first, for callers that time an event in the started programs.
int run_time(const Options& options) {
  const auto plan = timing_plan(options);
  fmt::print("{{\"begin_ns\": {}}}\n", steady_now().time_since_epoch().count());
  static_cast<void>(std::fflush(stdout));
  std::vector<double> times;
  long long lines = 0;
  for (int i = 0; i < options.repeat; ++i) {
    const auto timing = measure_time(plan);
    if (!timing) {
      return complain(timing.error());
    }
    times.push_back(timing->milliseconds);
    lines += timing->lines;
  }
  fmt::print("{{\"ms\": [{}], \"lines\": {}}}\n", fmt::join(times, ", "), lines);
  return 0;
}

int run_crowd(const Options& options) {
  CrowdPlan plan;
  plan.nodes = options.clients;
  plan.sealed = options.sealed;
  const auto crowd = measure_crowd(plan);
  if (!crowd) {
    return complain(crowd.error());
  }
  fmt::print(
      "{{\"joined_ms\": {}, \"started_ms\": {}, \"regrouped_ms\": {}, \"idle_percent\": {}, "
      "\"bytes_per_node_second\": {}, \"messages_per_node\": {}}}\n",
      milliseconds(crowd->joined),
      milliseconds(crowd->started),
      milliseconds(crowd->regrouped),
      crowd->idle_share * 100,
      crowd->bytes_per_node_second,
      crowd->messages_per_node);
  return 0;
}

int run_record(const Options& options) {
  const auto times = measure_record(options.folder, options.clients, options.requests);
  if (!times) {
    return complain(times.error());
  }
  std::vector<double> writes;
  for (const Duration time : *times) {
    writes.push_back(milliseconds(time));
  }
  fmt::print("{{\"ms\": [{}]}}\n", fmt::join(writes, ", "));
  return 0;
}

int run_delays(const Options& options) {
  pin_to(options.cpu);
  const auto delays = measure_delays(options.port, options.requests);
  if (!delays) {
    return complain(delays.error());
  }
  std::vector<std::string> fields;
  for (const Delay& delay : *delays) {
    fields.push_back(fmt::format("\"{}\": {}", delay.phase, milliseconds(delay.longest)));
  }
  fmt::print("{{{}}}\n", fmt::join(fields, ", "));
  return 0;
}

int run_ports(const Options& options) {
  const auto found = count_collisions({.jobs = options.requests,
                                       .at_once = static_cast<int>(options.clients),
                                       .range = {options.port, options.last_port},
                                       .probed = options.probed});
  if (!found) {
    return complain(found.error());
  }
  fmt::print("{{\"collisions\": {}, \"lost\": {}, \"us\": {}}}\n",
             found->collisions,
             found->lost,
             found->microseconds);
  return 0;
}

int run_scrape(const Options& options) {
  pin_to(options.cpu);
  const auto done = scrape({.port = options.port,
                            .path = options.path,
                            .connections = options.clients,
                            .requests = options.requests,
                            .rate = options.rate});
  if (!done) {
    return complain(done.error());
  }
  fmt::print(
      "{{\"answered\": {}, \"seconds\": {}, \"median_ms\": {}, \"p99_ms\": {}, "
      "\"longest_ms\": {}}}\n",
      done->answered,
      done->seconds,
      milliseconds(done->median),
      milliseconds(done->most_of_all),
      milliseconds(done->longest));
  return 0;
}

int run_echo(const Options& options) {
  const auto served = serve_echo(options.port);
  return served ? 0 : complain(served.error());
}

void add_delays(CLI::App& app, const Shared& options, int& exit_code) {
  auto* delays = app.add_subcommand("delays", "time PINGs during another client's large requests");
  delays->add_option("--port", options->port, "the server's port on 127.0.0.1")->required();
  delays->add_option("--keys", options->requests, "waits, and keys in each request")
      ->required()
      ->check(CLI::PositiveNumber);
  delays->add_option("--cpu", options->cpu, "pin this process to a cpu");
  delays->callback([options, &exit_code] { exit_code = run_delays(*options); });
}

}  // namespace

void add_tools(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  auto* echo = app.add_subcommand("echo", "serve the bare echo (lower bound for every server)");
  echo->add_option("--port", options->port, "port to listen on")->required();
  echo->callback([options, &exit_code] { exit_code = run_echo(*options); });

  auto* load = app.add_subcommand("load", "measure the requests per second of a server");
  add_server_options(*load, options);
  load->add_option("--op", options->operation, "get, set (TCPStore: SET and CHECK) or add")
      ->check(CLI::IsMember({"get", "set", "add"}));
  load->add_option("--depth", options->depth, "requests in flight on each connection");
  load->add_option("--seconds", options->seconds, "how long to measure");
  load->callback([options, &exit_code] { exit_code = run_load(*options); });

  auto* stream = app.add_subcommand("stream", "measure unacknowledged SETs per second");
  add_server_options(*stream, options);
  stream->add_option("--requests", options->requests, "total number of SETs");
  stream->callback([options, &exit_code] { exit_code = run_stream(*options); });

  auto* storm = app.add_subcommand("storm", "many clients connect, set and get");
  add_server_options(*storm, options);
  storm->callback([options, &exit_code] { exit_code = run_storm(*options); });

  auto* hold = app.add_subcommand("hold", "keep connections open until standard input is closed");
  add_server_options(*hold, options);
  hold->callback([options, &exit_code] { exit_code = run_hold(*options); });

  add_delays(app, options, exit_code);

  auto* time = app.add_subcommand("time", "time programs from start to the last exit");
  time->add_option("--repeat", options->repeat, "number of runs")->check(CLI::PositiveNumber);
  time->add_option("--timeout", options->timeout_seconds, "time limit per run, in seconds");
  time->add_flag("--drain", options->drain, "read the output and count its lines");
  time->add_option("PROGRAM", options->command, "program and arguments; ::: separates several")
      ->required();
  time->callback([options, &exit_code] { exit_code = run_time(*options); });

  auto* ports = app.add_subcommand("ports", "take ports of one range in many concurrent jobs");
  ports->add_option("--port", options->port, "first port of the range")->required();
  ports->add_option("--last-port", options->last_port, "last port of the range")->required();
  ports->add_option("--jobs", options->requests, "total number of jobs");
  ports->add_option("--at-once", options->clients, "number of concurrent jobs");
  ports->add_flag("--probed", options->probed, "probe for free ports without holding them");
  ports->callback([options, &exit_code] { exit_code = run_ports(*options); });

  auto* scrapes = app.add_subcommand("scrape", "send GETs of one page on schedule");
  scrapes->add_option("--port", options->port, "the server's port on 127.0.0.1")->required();
  scrapes->add_option("--path", options->path, "path of the page");
  scrapes->add_option("--rate", options->rate, "requests per second")->check(CLI::PositiveNumber);
  scrapes->add_option("--requests", options->requests, "total number of requests")
      ->check(CLI::PositiveNumber);
  scrapes->add_option("--clients", options->clients, "connections, used in turn")
      ->check(CLI::PositiveNumber);
  scrapes->add_option("--cpu", options->cpu, "pin this process to a cpu");
  scrapes->callback([options, &exit_code] { exit_code = run_scrape(*options); });

  auto* crowd = app.add_subcommand("crowd", "many nodes join one coordinator and lose one");
  crowd->add_option("--nodes", options->clients, "number of follower connections");
  crowd->add_flag("--sealed", options->sealed, "use a token and TLS");
  crowd->callback([options, &exit_code] { exit_code = run_crowd(*options); });

  auto* record = app.add_subcommand("record", "write the record of a round repeatedly");
  record->add_option("--folder", options->folder, "directory on a local disk")->required();
  record->add_option("--nodes", options->clients, "members of the round");
  record->add_option("--requests", options->requests, "number of writes")->required();
  record->callback([options, &exit_code] { exit_code = run_record(*options); });
}

}  // namespace muster::bench
