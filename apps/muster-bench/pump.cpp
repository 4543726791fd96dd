// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/names.hpp"
#include "apps/muster-bench/scratch.hpp"
#include "apps/muster-bench/series.hpp"
#include "base/clock.hpp"
#include "base/fd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace muster::bench {
namespace {

using namespace names;

constexpr long long kRanks = 8;
constexpr long long kLine = 100;
constexpr long long kBlock = 32'000;  // bench-floor writes so much at a time

// Reads the console until all its writers are gone; the number of lines that came.
long long drain(int fd) {
  std::vector<char> buffer(std::size_t{256} * 1024);
  long long lines = 0;
  for (;;) {
    const auto got = read(fd, buffer.data(), buffer.size());
    if (got <= 0) {
      return lines;
    }
    lines += std::count(buffer.begin(), buffer.begin() + got, '\n');
  }
}

// Megabytes a second of the workers' output, from the start to the exit of `words`.
Result<std::vector<double>> pump(const Peers& peers,
                                 std::vector<std::string> words,
                                 long long bytes) {
  auto console = make_pipe();
  if (!console) {
    return std::unexpected(console.error());
  }
  const auto begin = steady_now();
  auto child = Child::start({std::move(words), peers.environ, console->write.get()});
  if (!child) {
    return std::unexpected(child.error());
  }
  console->write.reset();
  const auto lines = drain(console->read.get());
  const int code = child->wait();
  const std::chrono::duration<double> spent = steady_now() - begin;
  const auto expected = kRanks * bytes / kLine;
  if (code != 0 || lines != expected) {
    return failure(
        Errc::system,
        fmt::format("exit {} and {} lines on the console instead of {}", code, lines, expected));
  }
  return std::vector<double>{static_cast<double>(kRanks * bytes) / 1e6 / spent.count()};
}

std::string shell_loop(const Peers& peers, long long bytes, const std::string& mover) {
  return fmt::format(
      "for i in 0 1 2 3 4 5 6 7; do {} flood {} | {} & done; wait", peers.floor, bytes, mover);
}

}  // namespace

std::vector<Table> measure_pump(const Peers& peers, const Effort& effort) {
  auto table = Table::of(
      "pump", "Output of 8 ranks that write as fast as they can", "MB/s", {"file and console"});
  const long long bytes = effort.flood_mib * 1024 * 1024 / kBlock * kBlock;
  table.note = fmt::format(
      "{} MB from each rank in lines of {} bytes; files in memory, the console is a pipe that the "
      "bench drains, and every line is counted there. muster also adds a prefix to each line; cat "
      "serves one place only.",
      bytes / 1'000'000,
      kLine);
  run_column(table,
             0,
             {{kMuster,
               !peers.muster.empty(),
               false,
               [&peers, bytes] {
                 const Scratch scratch;
                 return pump(peers,
                             {peers.muster,
                              "--nproc-per-node=8",
                              "--tee=3",
                              "--log-dir=" + scratch.path("logs"),
                              "--no-python",
                              peers.floor,
                              "flood",
                              std::to_string(bytes)},
                             bytes);
               }},
              {kTee,
               !peers.tee.empty(),
               false,
               [&peers, bytes] {
                 const Scratch scratch;
                 const auto mover = peers.tee + " " + scratch.path("$i.log");
                 return pump(peers, {"/bin/sh", "-c", shell_loop(peers, bytes, mover)}, bytes);
               }},
              {kCat,
               !peers.cat.empty(),
               false,
               [&peers, bytes] {
                 return pump(peers, {"/bin/sh", "-c", shell_loop(peers, bytes, peers.cat)}, bytes);
               }}},
             effort);
  return {table};
}

}  // namespace muster::bench
