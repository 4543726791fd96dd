// SPDX-License-Identifier: Apache-2.0
#include "platform/host_list.hpp"

#include "base/text.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <fstream>

using namespace muster;

namespace {

std::string expanded(std::string_view text) {
  const auto names = expand_host_list(text);
  return names ? join(*names, " ") : "refused";
}

// A random list that follows the grammar, and its host names, generated without the parser.
struct Sample {
  std::string text;
  std::vector<std::string> names;
};

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : dice_(seed) {}

  Sample list() {
    Sample out;
    for (int i = below(4) + 1; i > 0; --i) {
      Sample one = entry();
      out.text += (out.text.empty() ? "" : ",") + one.text;
      out.names.insert(out.names.end(), one.names.begin(), one.names.end());
    }
    return out;
  }

 private:
  std::string word() {
    static constexpr std::string_view kLetters = "abcn-.x";
    std::string out = "h";
    for (int i = below(4); i > 0; --i) {
      out += kLetters[static_cast<std::size_t>(below(static_cast<int>(kLetters.size())))];
    }
    return out;
  }

  static std::string padded(int number, std::size_t width) {
    std::string digits = std::to_string(number);
    return std::string(width > digits.size() ? width - digits.size() : 0, '0') + digits;
  }

  void range(Sample& out) {
    const int low = below(120);
    const int high = low + below(5);
    const std::size_t width = std::to_string(low).size() + static_cast<std::size_t>(below(3));
    out.text += (out.text.empty() ? "" : ",") + padded(low, width);
    out.text += high == low ? "" : "-" + std::to_string(high);
    for (int one = low; one <= high; ++one) {
      out.names.push_back(padded(one, width));
    }
  }

  // Names in the order in which scontrol prints them: the last number first, then from the left.
  Sample entry() {
    std::vector<std::pair<std::string, Sample>> groups;
    for (int i = below(4); i > 0; --i) {
      Sample ranges;
      for (int j = below(3) + 1; j > 0; --j) {
        range(ranges);
      }
      groups.emplace_back(word(), ranges);
    }
    Sample out;
    const std::string suffix = word();
    for (const auto& [text, ranges] : groups) {
      out.text += text + "[" + ranges.text + "]";
    }
    out.text += suffix;
    std::vector<std::size_t> at(groups.size(), 0);
    std::vector<std::size_t> order;  // which digit of this odometer advances first
    for (std::size_t i = 0; i < groups.size(); ++i) {
      order.push_back(i == 0 ? groups.size() - 1 : i - 1);
    }
    for (bool more = true; more;) {
      std::string name;
      for (std::size_t i = 0; i < groups.size(); ++i) {
        name += groups[i].first + groups[i].second.names[at[i]];
      }
      out.names.push_back(name + suffix);
      more = false;
      for (const std::size_t i : order) {
        if (++at[i] < groups[i].second.names.size()) {
          more = true;
          break;
        }
        at[i] = 0;
      }
    }
    return out;
  }

  int below(int limit) { return static_cast<int>(dice_.below(static_cast<std::uint64_t>(limit))); }

  testing::Dice dice_;
};

}  // namespace

// The pairs are output of `scontrol show hostnames` of Slurm 22.05.8, except for the suffix, which
// only 23.11 accepts.
TEST_CASE("host list: expands like scontrol") {
  std::ifstream pairs(MUSTER_FIXTURES "/host_lists.txt");
  int count = 0;
  for (std::string line; std::getline(pairs, line);) {
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    const auto arrow = line.find(" => ");
    REQUIRE(arrow != std::string::npos);
    INFO(line);
    CHECK(expanded(line.substr(0, arrow)) == line.substr(arrow + 4));
    ++count;
  }
  CHECK(count > 30);
}

TEST_CASE("host list: any list of the grammar expands to its names in order") {
  const testing::Seed seed;
  INFO(seed.describe());
  Maker maker(seed.value());
  for (int i = 0; i < 2000; ++i) {
    const Sample sample = maker.list();
    INFO(sample.text);
    REQUIRE(expanded(sample.text) == join(sample.names, " "));
  }
}

TEST_CASE("host list: an error quotes the invalid entry") {
  const auto why = [](std::string_view text) { return expand_host_list(text).error().message; };
  CHECK(why("n1,n[3-1]") == "host list: 'n[3-1]': '3-1' is not a range of numbers such as 01-16");
  CHECK(why("a[1-2") == "host list: 'a[1-2': unclosed bracket");
  CHECK(why("a]") == "host list: 'a]': not a host name");
  CHECK(why("") == "host list: '': contains no name");
}

TEST_CASE("host list: no list expands to more names than the limit") {
  CHECK(expand_host_list("n[1-65536]")->size() == kHostsMax);
  for (const std::string_view text : {"n[0-65536]",
                                      "n[1-999999999999999999]",
                                      "n[1-300]m[1-300]",
                                      "n[1-65536],x",
                                      "n[1-40000,1-40000]"}) {
    INFO(text);
    CHECK_FALSE(expand_host_list(text));
  }
}

TEST_CASE("host list: repetitions") {
  CHECK(*expand_repetitions("2(x2),1") == std::vector<int>{2, 2, 1});
  CHECK(*expand_repetitions("1") == std::vector<int>{1});
  for (const std::string_view text :
       {"", "2(x", "(x2)", "2(x99999999)", "a", "1,,2", "-1", "2(2)"}) {
    INFO(text);
    CHECK_FALSE(expand_repetitions(text));
  }
}
