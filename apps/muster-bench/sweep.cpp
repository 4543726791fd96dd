// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/sweep.hpp"

#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/names.hpp"
#include "base/fd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include <unistd.h>

namespace muster::bench {
namespace {

using namespace names;
using collective::DType;

constexpr int kHung = 120'000;  // ms: gloo needs seconds for a gigabyte
constexpr std::size_t kBucket = 25 * kMiB;

// Small sums are too short for a clock: many in a row. Large ones start from fresh data each time.
TimedCell timed(TimedCell cell, int ranks, bool slow) {
  const std::size_t bytes = cell.bytes;
  if (bytes <= 4 * kKiB) {
    cell.in_a_row = std::min(kInARow, most_in_a_row(cell.dtype, ranks));
    cell.batches = slow ? 20 : 200;
  } else if (bytes <= kMiB) {
    cell.batches = slow ? 20 : 100;
  } else if (bytes <= kBucket) {
    cell.batches = slow ? 4 : 12;
  } else {
    cell.batches = bytes < kGiB ? 3 : 1;
  }
  return cell;
}

bool understands(const Contender& contender, const TimedCell& cell) {
  const bool narrow = cell.dtype == DType::f16 || cell.dtype == DType::bf16;
  return !narrow || (contender.name != kOpenMpi && contender.name != kMpich);
}

Figures one_turn(const Sweep& sweep, const Contender& contender, const Peers& peers) {
  Words words = contender.words(sweep.ranks);
  const bool crowded = sweep.ranks > sysconf(_SC_NPROCESSORS_ONLN);
  for (const auto& cell : sweep.cells) {
    if (understands(contender, cell)) {
      words.push_back(word_of(timed(cell, sweep.ranks, contender.slow || crowded)));
    }
  }
  const auto text = output_of(words, peers.environ);
  if (!text) {
    fmt::print(stderr, "    {}: {}\n", contender.name, text.error().message);
  }
  return text ? parse_figures(*text) : Figures{};
}

Contender ours(const Peers& peers, const std::string& name, const std::string& mode) {
  return {name, !peers.ranks.empty(), false, [&peers, mode](int ranks) {
            return Words{peers.ranks, std::to_string(ranks), mode};
          }};
}

}  // namespace

std::vector<Contender> contenders(const Peers& peers) {
  return {
      ours(peers, kPrivate, "private"),
      ours(peers, kLibrary, "library"),
      ours(peers, kTcp, "tcp"),
      {kOpenMpi,
       !peers.open_mpi.empty() && !peers.ranks_open_mpi.empty(),
       false,
       [&peers](int ranks) {
         return Words{peers.open_mpi,
                      "--oversubscribe",
                      "--bind-to",
                      "none",
                      "-n",
                      std::to_string(ranks),
                      peers.ranks_open_mpi};
       }},
      {kMpich,
       !peers.hydra.empty() && !peers.ranks_mpich.empty(),
       false,
       [&peers](int ranks) {
         return Words{peers.hydra, "-n", std::to_string(ranks), peers.ranks_mpich};
       }},
      {kGloo,
       !peers.torch_python.empty() && !peers.ranks_gloo.empty(),
       true,
       [&peers](int ranks) {
         return Words{peers.torch_python, peers.ranks_gloo, std::to_string(ranks), "sums"};
       }},
      ours(peers, kMemcpy, "copy"),
      ours(peers, kBareTcp, "bare"),
  };
}

Result<std::string> output_of(const Words& words, const Environ& environ) {
  auto pipe = make_pipe();
  if (!pipe) {
    return std::unexpected(pipe.error());
  }
  auto child = Child::start({words, environ, pipe->write.get()});
  if (!child) {
    return std::unexpected(child.error());
  }
  pipe->write.reset();
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(pipe->read.get(), buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  if (const int code = child->wait(kHung); code != 0) {
    return failure(Errc::system, fmt::format("{} ended with {}", words[0], code));
  }
  return text;
}

Rounds run(const Sweep& sweep, const Peers& peers, int count) {
  Rounds rounds;
  for (int round = 0; round < count; ++round) {
    for (const auto& contender : sweep.contenders) {
      if (contender.installed) {
        rounds.by_peer[contender.name].push_back(one_turn(sweep, contender, peers));
      } else {
        rounds.missing[contender.name] = "not installed";
      }
    }
  }
  return rounds;
}

std::vector<std::string> keys_of(const Sweep& sweep) {
  std::vector<std::string> keys;
  for (const auto& cell : sweep.cells) {
    keys.push_back(key_of(cell));
  }
  return keys;
}

std::string size_name(std::size_t bytes) {
  if (bytes >= kGiB) {
    return fmt::format("{} GiB", bytes / kGiB);
  }
  if (bytes >= kMiB) {
    return fmt::format("{} MiB", bytes / kMiB);
  }
  return bytes >= kKiB ? fmt::format("{} KiB", bytes / kKiB) : fmt::format("{} B", bytes);
}

}  // namespace muster::bench
