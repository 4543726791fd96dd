// SPDX-License-Identifier: Apache-2.0
// Sums of the collective library beside those of MPI and gloo: programs of the same shape, started
// one after the other in each round, every result compared bit by bit.
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/foreign.hpp"
#include "apps/muster-bench/names.hpp"
#include "apps/muster-bench/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include <unistd.h>

namespace muster::bench {
namespace {

using namespace names;
using collective::DType;

constexpr std::size_t kBucket = 25 * kMiB;  // what PyTorch's DDP sends at once
constexpr double kBusy = 1.43;              // a copy that is 30 % slower than the best one

std::vector<std::string> names_of(const Sweep& sweep) {
  std::vector<std::string> names;
  for (const auto& cell : sweep.cells) {
    names.push_back(size_name(cell.bytes));
  }
  return names;
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
  fill_ratio(table, rounds, {kBareOverTcp, {kBareTcp}, kTcp, keys, keys});
  table.note =
      "Medians of the ratios within each round; above 1 the first row of the two is slower.";
  return table;
}

// Of the bytes of the larger buffer, what has to go over the slowest link: nccl-tests' definition.
double bus_share(Timed operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Timed::all_reduce:
      return 2 * others;
    case Timed::broadcast:
      return 1;
    default:
      return others;
  }
}

Table bandwidth_of(const Table& times, const Sweep& sweep) {
  Table table = times;
  table.id += "-bandwidth";
  table.title = fmt::format("Bus bandwidth of the same, {} ranks", sweep.ranks);
  table.unit = "GB/s";
  table.note =
      "busbw of nccl-tests: bytes / time (algbw) · 2(n−1)/n for all_reduce, · 1 for broadcast, "
      "· (n−1)/n for the others.";
  for (auto& row : table.rows) {
    for (std::size_t column = 0; column < row.cells.size(); ++column) {
      for (double& sample : row.cells[column].samples) {
        const TimedCell& cell = sweep.cells[column];
        sample =
            static_cast<double>(cell.bytes) / sample / 1e3 * bus_share(cell.operation, sweep.ranks);
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
    sweep.cells.push_back({.bytes = bytes});
  }
  const ForeignMeter meter;
  auto rounds = run(sweep, peers, effort.rounds);
  const auto dropped = drop_disturbed(rounds, kMemcpy, key_of({.bytes = kBucket}), kBusy);
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
    sweep.cells.push_back({.bytes = bytes});
  }
  const ForeignMeter meter;
  const auto rounds = run(sweep, peers, effort.rounds);
  auto table = Table::of(
      "collective-4",
      fmt::format("The same with 4 ranks on {} processors", sysconf(_SC_NPROCESSORS_ONLN)),
      "µs",
      names_of(sweep));
  table = table_of(sweep, rounds, table);
  std::vector<Table> tables{table, bandwidth_of(table, sweep)};
  note_foreign(tables, meter);
  return tables;
}

std::vector<Table> measure_operations(const Peers& peers, const Effort& effort) {
  Sweep sweep{contenders(peers), {}, 2};
  std::erase_if(sweep.contenders, [](const Contender& one) {
    return one.name == kLibrary || one.name == kMemcpy || one.name == kBareTcp;
  });
  std::vector<std::string> columns;
  for (const Timed operation :
       {Timed::broadcast, Timed::all_gather, Timed::reduce_scatter, Timed::all_to_all}) {
    for (const std::size_t bytes : {kKiB, kMiB, kBucket}) {
      sweep.cells.push_back({.bytes = bytes, .operation = operation});
      columns.push_back(fmt::format("{} {}", name_of(operation), size_name(bytes)));
    }
  }
  const ForeignMeter meter;
  const auto rounds = run(sweep, peers, effort.rounds);
  auto table = Table::of(
      "collective-operations", "Other operations, f32, 2 ranks, plain memory", "µs", columns);
  table.note =
      "The size is that of the larger buffer. From one buffer to another; broadcast has one.";
  table = table_of(sweep, rounds, table);
  std::vector<Table> tables{table, bandwidth_of(table, sweep)};
  note_foreign(tables, meter);
  return tables;
}

std::vector<Table> measure_types(const Peers& peers, const Effort& effort) {
  Sweep sweep{contenders(peers), {}, 2};
  const std::size_t count = kBucket / 4;
  std::vector<std::string> columns;
  for (const DType dtype :
       {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::i8}) {
    sweep.cells.push_back({.dtype = dtype, .bytes = count * size_of(dtype)});
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
  std::vector<Table> tables{table_of(sweep, rounds, table, {kMemcpy, kBareTcp}), ratios};
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
  // Whether a time slice has to end first is luck: more samples than of anything else.
  for (int round = 0; round < 3 * effort.rounds; ++round) {
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

// Kept in sight: these processes have no GPU to measure it on.
std::vector<Table> measure_gpu(const Peers& /*peers*/, const Effort& /*effort*/) {
  auto table =
      Table::of("collective-gpu", "Our all-reduce over the bare NCCL call", "µs", {"added"});
  table.note = "Measured where there is a GPU, by `scripts/gpu-check`.";
  table.add_row(kNccl).cells[0].missing = "see gpu-check";
  return {table};
}

}  // namespace

std::vector<Table> measure_collective(const Peers& peers, const Effort& effort) {
  std::vector<Table> tables;
  for (const auto& [what, measure] : {std::pair{"sizes", &measure_sizes},
                                      std::pair{"4 ranks", &measure_more_ranks},
                                      std::pair{"operations", &measure_operations},
                                      std::pair{"types", &measure_types},
                                      std::pair{"deaths", &measure_deaths},
                                      std::pair{"overlap", &measure_overlap},
                                      std::pair{"gpu", &measure_gpu}}) {
    fmt::print(stderr, "  {}\n", what);
    for (auto& table : measure(peers, effort)) {
      tables.push_back(std::move(table));
    }
  }
  return tables;
}

}  // namespace muster::bench
