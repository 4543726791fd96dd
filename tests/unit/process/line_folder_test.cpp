// SPDX-License-Identifier: Apache-2.0
#include "process/output/line_folder.hpp"

#include "base/text.hpp"
#include "support/catch.hpp"

#include <charconv>
#include <map>
#include <random>

using namespace muster;

namespace {

using Lines = std::vector<std::string>;

constexpr Duration kMs = std::chrono::milliseconds(1);

// Workers whose label is "RANK:". The local rank of a worker is its rank minus `first`.
struct Folding {
  explicit Folding(int count, int first = 0, bool colours = false)
      : folder(colours), rank_first(first) {
    for (int rank = first; rank < first + count; ++rank) {
      folder.open(rank - first, rank, std::to_string(rank) + ":");
    }
  }

  void add(int rank, std::string_view line) { folder.add(rank - rank_first, line, now, out); }

  void pass(int rank, std::string_view text, bool labelled = true) {
    folder.pass(rank - rank_first, text, labelled, out);
  }

  void due() { folder.emit_due(now, out); }

  // The lines that are shown since the last call.
  Lines shown() {
    auto lines = split(std::exchange(out, {}), '\n');
    REQUIRE(lines.back().empty());
    lines.pop_back();
    return lines;
  }

  Lines all() {
    folder.emit_all(out);
    REQUIRE(folder.empty());
    return shown();
  }

  LineFolder folder;
  int rank_first;
  TimePoint now{std::chrono::hours(1)};
  std::string out;
};

Lines folded(const Lines& lines) {
  Folding job(static_cast<int>(lines.size()));
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    job.add(static_cast<int>(rank), lines[rank]);
  }
  return job.all();
}

// A shown line: whose it is, and its text.
struct Shown {
  std::vector<int> ranks;
  std::string text;
};

int number(std::string_view text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Shown parsed(const std::string& line) {
  if (!line.starts_with("[ranks ")) {
    const auto colon = line.find(':');
    return {{number(line.substr(0, colon))}, line.substr(colon + 1)};
  }
  const auto close = line.find("] ");
  Shown out{{}, line.substr(close + 2)};
  for (const auto& range : split(line.substr(7, close - 7), ',')) {
    const auto ends = split(range, '-');
    for (int rank = number(ends.front()); rank <= number(ends.back()); ++rank) {
      out.ranks.push_back(rank);
    }
  }
  return out;
}

// The shown texts of each rank, in order.
std::map<int, Lines> by_rank(const Lines& shown) {
  std::map<int, Lines> out;
  for (const auto& line : shown) {
    const auto [ranks, text] = parsed(line);
    for (const int rank : ranks) {
      out[rank].push_back(text);
    }
  }
  return out;
}

// Adds random lines of random workers, with random pauses, and collects all that is shown.
template <typename MakeLine>
std::pair<std::map<int, Lines>, Lines> random_run(unsigned seed, MakeLine make_line) {
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return static_cast<int>(random() % unsigned(limit)); };
  const int ranks = 2 + below(7);
  Folding job(ranks);
  std::map<int, Lines> added;
  Lines shown;
  for (int step = 0; step < 600; ++step) {
    const int rank = below(ranks);
    const std::string line = make_line(below);
    added[rank].push_back(line);
    if (below(40) == 0) {
      job.pass(rank, line + "\n");
    } else {
      job.add(rank, line);
    }
    job.now += kMs * (below(10) == 0 ? below(60) : 0);
    if (below(3) == 0) {
      job.due();
    }
    for (auto& text : job.shown()) {
      shown.push_back(std::move(text));
    }
  }
  for (auto& text : job.all()) {
    shown.push_back(std::move(text));
  }
  return {added, shown};
}

// True if `line` can be one of the lines that "loss A..B of C..D" stands for.
bool covers(const std::string& shown, const std::string& line) {
  const auto parts = split(shown, ' ');
  const auto own = split(line, ' ');
  bool fits = parts.size() == 4 && parts[0] == own[0] && parts[2] == own[2];
  for (const std::size_t i : {1U, 3U}) {
    const auto dots = parts[i].find("..");
    const auto high = dots == std::string::npos ? parts[i] : parts[i].substr(dots + 2);
    fits = fits && number(parts[i]) <= number(own[i]) && number(own[i]) <= number(high);
  }
  return fits;
}

}  // namespace

TEST_CASE("line folder: equal lines of several ranks become one line") {
  CHECK(folded({"loading", "loading", "loading"}) == Lines{"[ranks 0-2] loading"});
  CHECK(folded({"loading", "other", "loading"}) == Lines{"[ranks 0,2] loading", "1:other"});
  CHECK(folded({"", ""}) == Lines{"[ranks 0-1] "});
  CHECK(folded({"a", "b"}) == Lines{"0:a", "1:b"});
  // The numbers of colours are not a range.
  CHECK(folded({"\x1b[31mrank 0", "\x1b[32mrank 1"}) ==
        Lines{"0:\x1b[31mrank 0", "1:\x1b[32mrank 1"});
  CHECK(folded({"\x1b[31mrank", "\x1b[31mrank"}) == Lines{"[ranks 0-1] \x1b[31mrank"});
}

TEST_CASE("line folder: labels show ranks of the job, and are bold with colours") {
  Folding job(3, 8, true);
  for (const int rank : {10, 8, 9}) {
    job.add(rank, "x");
  }
  CHECK(job.all() == Lines{"\x1b[1m[ranks 8-10]\x1b[0m x"});
  job.add(9, "y");
  CHECK(job.all() == Lines{"9:y"});
}

TEST_CASE("line folder: lines that differ only in numbers show the ranges") {
  CHECK(folded({"loss 0.52", "loss 0.51", "loss 0.53"}) == Lines{"[ranks 0-2] loss 0.51..0.53"});
  CHECK(folded({"step 7: 9 s", "step 7: 10 s"}) == Lines{"[ranks 0-1] step 7: 9..10 s"});
  CHECK(folded({"x -1.5", "x 2", "x 1e-05"}) == Lines{"[ranks 0-2] x -1.5..2"});
  CHECK(folded({"12:00:01,25 up", "12:00:01,7 up"}) == Lines{"[ranks 0-1] 12:00:01,7..25 up"});
  CHECK(folded({"cuda:0", "cuda:1"}) == Lines{"[ranks 0-1] cuda:0..1"});
  CHECK(folded({"10.0.0.9", "10.0.0.10"}) == Lines{"[ranks 0-1] 10.0.0.9..10"});
  CHECK(folded({"2026-11-29", "2026-11-30"}) == Lines{"[ranks 0-1] 2026-11-29..30"});
  CHECK(folded({"99999999999999999998", "99999999999999999999"}) ==
        Lines{"[ranks 0-1] 99999999999999999998..99999999999999999999"});
}

TEST_CASE("line folder: lines that differ in more than numbers stay separate") {
  CHECK(folded({"loss 0.52", "loss nan"}) == Lines{"0:loss 0.52", "1:loss nan"});
  CHECK(folded({"at 0x7f12", "at 0x7f13"}) == Lines{"0:at 0x7f12", "1:at 0x7f13"});
  CHECK(folded({"1 of 2", "1 of 2 "}) == Lines{"0:1 of 2", "1:1 of 2 "});
  CHECK(folded({"1", "1.5 s"}) == Lines{"0:1", "1:1.5 s"});
  CHECK(folded({"n 5", "n "}) == Lines{"0:n 5", "1:n "});
}

TEST_CASE("line folder: a rank's equal lines are not merged with each other") {
  Folding job(2);
  for (const int rank : {0, 0, 1, 1, 1}) {
    job.add(rank, "again");
  }
  CHECK(job.all() == Lines{"[ranks 0-1] again", "[ranks 0-1] again", "1:again"});
}

TEST_CASE("line folder: a rank that skips lines joins a later line, and never an earlier one") {
  Folding job(2);
  for (const auto* line : {"a", "b", "c"}) {
    job.add(0, line);
  }
  for (const auto* line : {"b", "a", "c"}) {
    job.add(1, line);
  }
  CHECK(job.all() == Lines{"0:a", "[ranks 0-1] b", "0:c", "1:a", "1:c"});
}

TEST_CASE("line folder: a line is shown once all ranks have printed it, else in time") {
  static_assert(kFoldTime + kFoldTime / 2 <= std::chrono::milliseconds(100));
  Folding job(3);
  for (const int rank : {0, 1, 2}) {
    job.due();
    CHECK(job.shown().empty());
    job.add(rank, "all");
  }
  job.due();
  CHECK(job.shown() == Lines{"[ranks 0-2] all"});
  job.add(0, "one");
  job.now += kFoldTime - kMs;
  job.add(1, "one");
  job.due();
  CHECK(job.shown().empty());
  job.now += kMs;
  job.due();
  CHECK(job.shown() == Lines{"[ranks 0-1] one"});
  CHECK(job.folder.empty());
}

TEST_CASE("line folder: lines do not wait for ranks whose streams have ended") {
  Folding job(3);
  job.folder.open(2, 2, "2:");  // its standard error
  job.folder.close(2);
  job.add(0, "x");
  job.add(1, "x");
  job.due();
  CHECK(job.shown().empty());
  job.folder.close(2);
  job.due();
  CHECK(job.shown() == Lines{"[ranks 0-1] x"});
}

TEST_CASE("line folder: text that cannot be folded follows the rank's earlier lines") {
  Folding job(2);
  job.add(1, "other");
  job.add(0, "first");
  job.add(1, "later");
  job.pass(0, "50 %");
  job.pass(0, " done\n", false);
  CHECK(job.shown() == Lines{"1:other", "0:first", "0:50 % done"});
  CHECK(job.all() == Lines{"1:later"});
  const std::string long_line(kFoldedLineBytesMax + 1, 'x');
  job.add(0, long_line);
  CHECK(job.shown() == Lines{"0:" + long_line});
}

TEST_CASE("line folder: holds a limited number of lines and bytes") {
  Folding job(2);
  for (std::size_t i = 0; i < kHeldLinesMax + 3; ++i) {
    job.add(0, std::string(1, static_cast<char>('a' + i % 2)));
  }
  CHECK(job.shown() == Lines{"0:a", "0:b", "0:a"});
  CHECK(job.all().size() == kHeldLinesMax);
  const std::string line(kFoldedLineBytesMax, 'x');
  for (std::size_t i = 0; i < kHeldBytesMax / line.size() + 2; ++i) {
    job.add(0, line);
  }
  CHECK(job.shown() == Lines{"0:" + line, "0:" + line});
}

TEST_CASE("line folder: further numbers than the limit must be equal") {
  std::string line;
  for (std::size_t i = 0; i < kFoldedNumbersMax; ++i) {
    line += "1 ";
  }
  CHECK(folded({line + "5", line + "5"}).size() == 1);
  CHECK(folded({line + "5", line + "6"}).size() == 2);
}

TEST_CASE("line folder: random lines are each shown once, in each rank's order") {
  const Lines words{"load", "save", "", "[ranks", "step", "done: a"};
  for (unsigned seed = 0; seed < 50; ++seed) {
    INFO("seed " << seed);
    const auto [added, shown] =
        random_run(seed, [&](auto& below) { return words[static_cast<std::size_t>(below(6))]; });
    CHECK(by_rank(shown) == added);
    CHECK(shown.size() < 600);
  }
}

TEST_CASE("line folder: random numbers are within the shown ranges, in each rank's order") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    INFO("seed " << seed);
    const auto [added, shown] = random_run(seed, [](auto& below) {
      return (below(2) == 0 ? "loss " : "rate ") + std::to_string(below(2000) - 1000) + " of " +
             std::to_string(below(3));
    });
    const auto ranks = by_rank(shown);
    for (const auto& [rank, lines] : added) {
      REQUIRE(ranks.at(rank).size() == lines.size());
      for (std::size_t i = 0; i < lines.size(); ++i) {
        INFO(ranks.at(rank)[i] << " for " << lines[i]);
        CHECK(covers(ranks.at(rank)[i], lines[i]));
      }
    }
  }
}
