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

void add_target_options(CLI::App& app, const Shared& options) {
  app.add_option("--port", options->port, "the server's port on 127.0.0.1")->required();
  app.add_option("--cpu", options->cpu, "pin this process to a cpu");
}

void add_server_options(CLI::App& app, const Shared& options) {
  add_target_options(app, options);
  app.add_option("--protocol", options->protocol, "protocol of the server")
      ->check(CLI::IsMember({"tcpstore", "redis", "echo"}));
  app.add_option("--clients", options->clients, "connections");
}

int complain(const Error& error) {
  fmt::print(stderr, "muster-bench: {}\n", error.message);
  return 1;
}

// Prints the figures of a measurement as one JSON object, or its error. Returns the exit code.
template <class T, class Figures>
int report(const Result<T>& measured, const Figures& figures) {
  if (!measured) {
    return complain(measured.error());
  }
  fmt::print("{{{}}}\n", figures(*measured));
  static_cast<void>(std::fflush(stdout));
  return 0;
}

double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

std::string rate_of(double rate) {
  return fmt::format("\"rate\": {}", rate);
}

int run_load(const Options& options) {
  LoadPlan plan;
  plan.port = options.port;
  plan.protocol = *parse_protocol(options.protocol);
  plan.operation = *parse_operation(options.operation);
  plan.clients = options.clients;
  plan.depth = options.depth;
  plan.warm_up = std::chrono::milliseconds(50);
  plan.measured =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.seconds));
  return report(measure_rate(plan), rate_of);
}

int run_stream(const Options& options) {
  const auto each = options.requests / options.clients;
  return report(
      measure_stream({options.port, *parse_protocol(options.protocol), options.clients, each}),
      rate_of);
}

int run_storm(const Options& options) {
  return report(raise_storm({options.port, *parse_protocol(options.protocol), options.clients}),
                [](const Storm& storm) {
                  return fmt::format("\"connected_ms\": {}, \"whole_ms\": {}",
                                     milliseconds(storm.connected),
                                     milliseconds(storm.whole));
                });
}

// Keeps connections open that have completed the greeting, until standard input is closed.
int run_hold(const Options& options) {
  const auto held = open_idle({options.port, *parse_protocol(options.protocol), options.clients});
  const int code = report(held, [](const std::vector<UniqueFd>& connections) {
    return fmt::format("\"connections\": {}", connections.size());
  });
  char ignored = 0;
  while (code == 0 && read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  return code;
}

// "a 1 ::: b 2" means two programs.
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
  return report(measure_crowd(plan), [](const Crowd& crowd) {
    return fmt::format(
        "\"joined_ms\": {}, \"started_ms\": {}, \"regrouped_ms\": {}, \"idle_percent\": {}, "
        "\"bytes_per_node_second\": {}, \"messages_per_node\": {}",
        milliseconds(crowd.joined),
        milliseconds(crowd.started),
        milliseconds(crowd.regrouped),
        crowd.idle_share * 100,
        crowd.bytes_per_node_second,
        crowd.messages_per_node);
  });
}

int run_record(const Options& options) {
  return report(measure_record(options.folder, options.clients, options.requests),
                [](const std::vector<Duration>& times) {
                  std::vector<double> writes;
                  for (const Duration time : times) {
                    writes.push_back(milliseconds(time));
                  }
                  return fmt::format("\"ms\": [{}]", fmt::join(writes, ", "));
                });
}

int run_delays(const Options& options) {
  return report(
      measure_delays(options.port, options.requests), [](const std::vector<Delay>& delays) {
        std::vector<std::string> fields;
        for (const Delay& delay : delays) {
          fields.push_back(fmt::format("\"{}\": {}", delay.phase, milliseconds(delay.longest)));
        }
        return fmt::format("{}", fmt::join(fields, ", "));
      });
}

int run_ports(const Options& options) {
  return report(count_collisions({.jobs = options.requests,
                                  .at_once = static_cast<int>(options.clients),
                                  .range = {options.port, options.last_port},
                                  .probed = options.probed}),
                [](const PortsFound& found) {
                  return fmt::format("\"collisions\": {}, \"lost\": {}, \"us\": {}",
                                     found.collisions,
                                     found.lost,
                                     found.microseconds);
                });
}

int run_scrape(const Options& options) {
  return report(scrape({.port = options.port,
                        .path = options.path,
                        .connections = options.clients,
                        .requests = options.requests,
                        .rate = options.rate}),
                [](const Scrapes& done) {
                  return fmt::format(
                      "\"answered\": {}, \"seconds\": {}, \"median_ms\": {}, \"p99_ms\": {}, "
                      "\"longest_ms\": {}",
                      done.answered,
                      done.seconds,
                      milliseconds(done.median),
                      milliseconds(done.most_of_all),
                      milliseconds(done.longest));
                });
}

int run_echo(const Options& options) {
  const auto served = serve_echo(options.port);
  return served ? 0 : complain(served.error());
}

}  // namespace

void add_tools(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  const auto add = [&](const char* name, const char* help, int (*run)(const Options&)) {
    auto* tool = app.add_subcommand(name, help);
    tool->callback([options, run, &exit_code] {
      pin_to(options->cpu);
      exit_code = run(*options);
    });
    return tool;
  };

  auto* echo = add("echo", "serve the bare echo (lower bound for every server)", run_echo);
  echo->add_option("--port", options->port, "port to listen on")->required();

  auto* load = add("load", "measure the requests per second of a server", run_load);
  add_server_options(*load, options);
  load->add_option("--op", options->operation, "get, set (TCPStore: SET and CHECK) or add")
      ->check(CLI::IsMember({"get", "set", "add"}));
  load->add_option("--depth", options->depth, "requests in flight on each connection");
  load->add_option("--seconds", options->seconds, "how long to measure");

  auto* stream = add("stream", "measure unacknowledged SETs per second", run_stream);
  add_server_options(*stream, options);
  stream->add_option("--requests", options->requests, "total number of SETs");

  auto* storm = add("storm", "many clients connect, set and get", run_storm);
  add_server_options(*storm, options);

  auto* hold = add("hold", "keep connections open until standard input is closed", run_hold);
  add_server_options(*hold, options);

  auto* delays = add("delays", "time PINGs during another client's large requests", run_delays);
  add_target_options(*delays, options);
  delays->add_option("--keys", options->requests, "waits, and keys in each request")
      ->required()
      ->check(CLI::PositiveNumber);

  auto* time = add("time", "time programs from start to the last exit", run_time);
  time->add_option("--repeat", options->repeat, "number of runs")->check(CLI::PositiveNumber);
  time->add_option("--timeout", options->timeout_seconds, "time limit per run, in seconds");
  time->add_flag("--drain", options->drain, "read the output and count its lines");
  time->add_option("PROGRAM", options->command, "program and arguments; ::: separates several")
      ->required();

  auto* ports = add("ports", "take ports of one range in many concurrent jobs", run_ports);
  ports->add_option("--port", options->port, "first port of the range")->required();
  ports->add_option("--last-port", options->last_port, "last port of the range")->required();
  ports->add_option("--jobs", options->requests, "total number of jobs");
  ports->add_option("--at-once", options->clients, "number of concurrent jobs");
  ports->add_flag("--probed", options->probed, "probe for free ports without holding them");

  auto* scrapes = add("scrape", "send GETs of one page on schedule", run_scrape);
  add_target_options(*scrapes, options);
  scrapes->add_option("--path", options->path, "path of the page");
  scrapes->add_option("--rate", options->rate, "requests per second")->check(CLI::PositiveNumber);
  scrapes->add_option("--requests", options->requests, "total number of requests")
      ->check(CLI::PositiveNumber);
  scrapes->add_option("--clients", options->clients, "connections, used in turn")
      ->check(CLI::PositiveNumber);

  auto* crowd = add("crowd", "many nodes join one coordinator and lose one", run_crowd);
  crowd->add_option("--nodes", options->clients, "number of follower connections");
  crowd->add_flag("--sealed", options->sealed, "use a token and TLS");

  auto* record = add("record", "write the record of a round repeatedly", run_record);
  record->add_option("--folder", options->folder, "directory on a local disk")->required();
  record->add_option("--nodes", options->clients, "members of the round");
  record->add_option("--requests", options->requests, "number of writes")->required();
}

}  // namespace muster::bench
