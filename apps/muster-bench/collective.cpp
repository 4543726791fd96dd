// SPDX-License-Identifier: Apache-2.0
// Sums of the collective library beside those of MPI and gloo: programs of the same shape, started
// one after the other in each round, every result compared bit by bit.
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/foreign.hpp"
#include "apps/muster-bench/names.hpp"
#include "apps/muster-bench/ranks/cell.hpp"
#include "apps/muster-bench/rounds.hpp"
#include "base/fd.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include <unistd.h>

namespace muster::bench {
namespace {

using namespace names;
using collective::DType;
using Words = std::vector<std::string>;

constexpr int kHung = 120'000;  // ms: gloo needs seconds for a gigabyte
constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = kKiB * 1024;
constexpr std::size_t kGiB = kMiB * 1024;
constexpr std::size_t kBucket = 25 * kMiB;  // what PyTorch's DDP sends at once
constexpr double kBusy = 1.43;              // a copy that is 30 % slower than the best one
constexpr int kInARow = 50;

// One peer: how it is started for so many ranks.
struct Contender {
  std::string name;
  bool installed = true;
  bool slow = false;
  std::function<Words(int ranks)> words;
};

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

std::string key_of(DType dtype, std::size_t bytes) {
  return fmt::format("{}:{}", name_of(dtype), bytes);
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

// Small sums are too short for a clock: many in a row. Large ones start from fresh data each time.
TimedCell cell_of(DType dtype, std::size_t bytes, int ranks, bool slow) {
  TimedCell cell{.dtype = dtype, .bytes = bytes, .in_a_row = 1};
  if (bytes <= 4 * kKiB) {
    cell.in_a_row = std::min(kInARow, most_in_a_row(dtype, ranks));
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

struct Sweep {
  std::vector<Contender> contenders;
  std::vector<std::pair<DType, std::size_t>> cells;
  int ranks = 2;
};

bool understands(const Contender& contender, DType dtype) {
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  return !narrow || (contender.name != kOpenMpi && contender.name != kMpich);
}

Figures one_turn(const Sweep& sweep, const Contender& contender, const Peers& peers) {
  Words words = contender.words(sweep.ranks);
  for (const auto& [dtype, bytes] : sweep.cells) {
    if (understands(contender, dtype)) {
      const bool crowded = sweep.ranks > sysconf(_SC_NPROCESSORS_ONLN);
      words.push_back(word_of(cell_of(dtype, bytes, sweep.ranks, contender.slow || crowded)));
    }
  }
  const auto text = output_of(words, peers.environ);
  if (!text) {
    fmt::print(stderr, "    {}: {}\n", contender.name, text.error().message);
  }
  return text ? parse_figures(*text) : Figures{};
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

Contender ours(const Peers& peers, const std::string& name, const std::string& mode) {
  return {name, !peers.ranks.empty(), false, [&peers, mode](int ranks) {
            return Words{peers.ranks, std::to_string(ranks), mode};
          }};
}

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
  };
}

std::vector<std::string> keys_of(const Sweep& sweep) {
  std::vector<std::string> keys;
  for (const auto& [dtype, bytes] : sweep.cells) {
    keys.push_back(key_of(dtype, bytes));
  }
  return keys;
}

Table table_of(const Sweep& sweep,
               const Rounds& rounds,
               Table table,
               const std::vector<std::string>& without = {}) {
  for (const auto& contender : sweep.contenders) {
    if (std::ranges::find(without, contender.name) == without.end()) {
      fill_row(table, contender.name, rounds, contender.name, keys_of(sweep));
    }
  }
  return table;
}

std::vector<std::string> names_of(const Sweep& sweep) {
  std::vector<std::string> names;
  for (const auto& [dtype, bytes] : sweep.cells) {
    names.push_back(size_name(bytes));
  }
  return names;
}

Table ratios_of(const Sweep& sweep, const Rounds& rounds) {
  auto table = Table::of(
      "collective-ratios", "How much longer the other needs, round by round", "×", names_of(sweep));
  const auto keys = keys_of(sweep);
  const std::vector<std::string> mpi{kOpenMpi, kMpich};
  fill_ratio(table, rounds, {kGlooOverPrivate, {kGloo}, kPrivate, keys, keys});
  fill_ratio(table, rounds, {kGlooOverLibrary, {kGloo}, kLibrary, keys, keys});
  fill_ratio(table, rounds, {kGlooOverTcp, {kGloo}, kTcp, keys, keys});
  fill_ratio(table, rounds, {kMpiOverPrivate, mpi, kPrivate, keys, keys});
  fill_ratio(table, rounds, {kOpenMpiOverPrivate, {kOpenMpi}, kPrivate, keys, keys});
  fill_ratio(table, rounds, {kMpiOverLibrary, mpi, kLibrary, keys, keys});
  fill_ratio(table, rounds, {kMemcpyOverPrivate, {kMemcpy}, kPrivate, keys, keys});
  table.note =
      "Medians of the ratios within each round; above 1 the first row of the two is slower.";
  return table;
}

// Bus bandwidth as nccl-tests defines it: bytes / time · 2(n−1)/n.
Table bandwidth_of(const Table& times, const Sweep& sweep) {
  Table table = times;
  table.id = "collective-bandwidth";
  table.title = fmt::format("Bus bandwidth of the same, {} ranks", sweep.ranks);
  table.unit = "GB/s";
  table.note = "busbw of nccl-tests: bytes / time · 2(n−1)/n; with two ranks the same as algbw.";
  const double factor = 2.0 * (sweep.ranks - 1) / sweep.ranks;
  for (auto& row : table.rows) {
    for (std::size_t column = 0; column < row.cells.size(); ++column) {
      for (double& sample : row.cells[column].samples) {
        sample = static_cast<double>(sweep.cells[column].second) / sample / 1e3 * factor;
      }
    }
  }
  return table;
}

void note_foreign(std::vector<Table>& tables, const ForeignMeter& meter) {
  for (auto& table : tables) {
    table.foreign.assign(table.columns.size(), meter.percent());
  }
}

std::vector<Table> measure_sizes(const Peers& peers, const Effort& effort) {
  Sweep sweep{contenders(peers), {}, 2};
  std::vector<std::size_t> sizes{
      4, kKiB, 64 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, kBucket, 100 * kMiB, kGiB};
  sizes.resize(effort.storm < 10'000 ? sizes.size() - 2 : sizes.size());  // quick: not the largest
  for (const std::size_t bytes : sizes) {
    sweep.cells.emplace_back(DType::f32, bytes);
  }
  const ForeignMeter meter;
  auto rounds = run(sweep, peers, effort.rounds);
  const auto dropped = drop_disturbed(rounds, kMemcpy, key_of(DType::f32, kBucket), kBusy);
  auto table = Table::of(
      "collective", "All-reduce in place, f32 sum, 2 ranks on one host", "µs", names_of(sweep));
  table.note = fmt::format(
      "Slowest rank, median of the batches of a round; up to 4 KiB {} sums in a row, above each "
      "from fresh data. Every element of every result is compared. Nobody is pinned, plain pages "
      "of "
      "4 KiB. {} of {} rounds left out because copying was 30 % slower than in the best.",
      kInARow,
      dropped,
      effort.rounds);
  table = table_of(sweep, rounds, table);
  std::vector<Table> tables{table, ratios_of(sweep, rounds), bandwidth_of(table, sweep)};
  note_foreign(tables, meter);
  return tables;
}

std::vector<Table> measure_more_ranks(const Peers& peers, const Effort& effort) {
  Sweep sweep{contenders(peers), {}, 4};
  for (const std::size_t bytes : {kKiB, 64 * kKiB, kMiB, kBucket}) {
    sweep.cells.emplace_back(DType::f32, bytes);
  }
  const ForeignMeter meter;
  const auto rounds = run(sweep, peers, effort.rounds);
  auto table = Table::of(
      "collective-4",
      fmt::format("The same with 4 ranks on {} processors", sysconf(_SC_NPROCESSORS_ONLN)),
      "µs",
      names_of(sweep));
  std::vector<Table> tables{table_of(sweep, rounds, table)};
  note_foreign(tables, meter);
  return tables;
}

std::vector<Table> measure_types(const Peers& peers, const Effort& effort) {
  Sweep sweep{contenders(peers), {}, 2};
  const std::size_t count = kBucket / 4;
  std::vector<std::string> columns;
  for (const DType dtype :
       {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i8}) {
    sweep.cells.emplace_back(dtype, count * size_of(dtype));
    columns.emplace_back(name_of(dtype));
  }
  const ForeignMeter meter;
  const auto rounds = run(sweep, peers, effort.rounds);
  auto table = Table::of("collective-types", "6,553,600 elements of other types", "µs", columns);
  table.note = "MPI has no 16-bit floats.";
  auto ratios = Table::of("collective-types-ratios", "Over f32 of the same count", "×", columns);
  const auto keys = keys_of(sweep);
  const std::vector<std::string> f32(keys.size(), keys[0]);
  for (const auto* const name : {kPrivate, kLibrary, kGloo}) {
    fill_ratio(ratios, rounds, {name, {name}, name, keys, f32});
  }
  std::vector<Table> tables{table_of(sweep, rounds, table, {kMemcpy}), ratios};
  note_foreign(tables, meter);
  return tables;
}

// Figures of single runs: keys are columns.
void add_runs(Table& table,
              std::size_t column,
              const Contender& contender,
              const std::vector<std::pair<std::string, Words>>& keys_and_words,
              const Peers& peers) {
  auto row = std::ranges::find(table.rows, contender.name, &Row::name);
  Row& target = row == table.rows.end() ? table.add_row(contender.name) : *row;
  for (const auto& [key, words] : keys_and_words) {
    Cell& cell = target.cells[column++];
    if (!contender.installed) {
      cell.missing = "not installed";
      continue;
    }
    Words all = contender.words(3);
    all.resize(all.size() - 1);
    all.insert(all.end(), words.begin(), words.end());
    const auto text = output_of(all, peers.environ);
    const auto figures = text ? parse_figures(*text) : Figures{};
    if (const auto found = figures.find(key); found != figures.end()) {
      cell.samples.push_back(found->second);
    } else {
      ++cell.failures;
    }
  }
}

std::vector<Table> measure_deaths(const Peers& peers, const Effort& effort) {
  auto table = Table::of("collective-death",
                         "SIGKILL of one of 3 ranks until the other two have an error",
                         "µs",
                         {"victim of 16 MiB", "victim of 2 GiB"});
  const auto all = contenders(peers);
  const ForeignMeter meter;
  for (int round = 0; round < effort.rounds; ++round) {
    for (const auto* const name : {kPrivate, kGloo}) {
      add_runs(table,
               0,
               *std::ranges::find(all, name, &Contender::name),
               {{"death", {"death", "16"}}, {"death", {"death", "2048"}}},
               peers);
    }
  }
  std::vector<Table> tables{table};
  note_foreign(tables, meter);
  return tables;
}

std::vector<Table> measure_overlap(const Peers& peers, const Effort& effort) {
  auto table =
      Table::of("collective-overlap",
                "GradientSync, 25 MiB in 50 tensors: communication that is not hidden by a "
                "backward pass twice as long",
                "%",
                {"backward on a device", "backward on all processors"});
  table.note =
      "How much longer a step is with the sums than without, over the time of the sums alone. On a "
      "device: nobody uses the processors meanwhile. On all processors, sums take from the "
      "backward "
      "pass what they use: nothing can be hidden there.";
  Row& row = table.add_row(kGradientSync);
  const ForeignMeter meter;
  for (int round = 0; round < effort.rounds; ++round) {
    const auto text = output_of({peers.ranks, "2", "overlap"}, peers.environ);
    const auto figures = text ? parse_figures(*text) : Figures{};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto found = figures.find(i == 0 ? "device" : "cpu");
      if (found != figures.end()) {
        row.cells[i].samples.push_back(found->second);
      } else {
        ++row.cells[i].failures;
      }
    }
  }
  std::vector<Table> tables{table};
  note_foreign(tables, meter);
  return tables;
}

}  // namespace

std::vector<Table> measure_collective(const Peers& peers, const Effort& effort) {
  std::vector<Table> tables;
  for (const auto& [what, measure] : {std::pair{"sizes", &measure_sizes},
                                      std::pair{"4 ranks", &measure_more_ranks},
                                      std::pair{"types", &measure_types},
                                      std::pair{"deaths", &measure_deaths},
                                      std::pair{"overlap", &measure_overlap}}) {
    fmt::print(stderr, "  {}\n", what);
    for (auto& table : measure(peers, effort)) {
      tables.push_back(std::move(table));
    }
  }
  return tables;
}

}  // namespace muster::bench
