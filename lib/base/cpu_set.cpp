// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_set.hpp"

#include "base/check.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace muster {
namespace {

constexpr int kBits = std::numeric_limits<CpuSet::Word>::digits;

std::size_t word_of(int number) {
  return static_cast<std::size_t>(number / kBits);
}

CpuSet::Word bit_of(int number) {
  return CpuSet::Word{1} << static_cast<unsigned>(number % kBits);
}

std::optional<int> number_of(std::string_view text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  const auto number = digits ? parse_int(text) : std::nullopt;
  return number && *number < CpuSet::kNumbersMax ? std::optional(static_cast<int>(*number))
                                                 : std::nullopt;
}

}  // namespace

std::optional<CpuSet> CpuSet::parse(std::string_view list) {
  CpuSet set;
  const std::string_view text = trim(list);
  if (text.empty()) {
    return set;
  }
  for (const std::string& part : split(text, ',')) {
    const auto dash = std::min(part.find('-'), part.size());
    const auto first = number_of(std::string_view(part).substr(0, dash));
    const auto last =
        dash == part.size() ? first : number_of(std::string_view(part).substr(dash + 1));
    if (!first || !last || *last < *first) {
      return std::nullopt;
    }
    for (int number = *first; number <= *last; ++number) {
      set.add(number);
    }
  }
  return set;
}

CpuSet CpuSet::from_words(std::span<const Word> words) {
  CpuSet set;
  set.words_.assign(words.begin(), words.end());
  set.trim_end();
  return set;
}

void CpuSet::add(int number) {
  MUSTER_CHECK(number >= 0 && number < kNumbersMax);
  if (words_.size() <= word_of(number)) {
    words_.resize(word_of(number) + 1);
  }
  words_[word_of(number)] |= bit_of(number);
}

bool CpuSet::contains(int number) const {
  return number >= 0 && word_of(number) < words_.size() &&
         (words_[word_of(number)] & bit_of(number)) != 0;
}

int CpuSet::count() const {
  int sum = 0;
  for (const Word word : words_) {
    sum += std::popcount(word);
  }
  return sum;
}

int CpuSet::first() const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] != 0) {
      return static_cast<int>(i) * kBits + std::countr_zero(words_[i]);
    }
  }
  return -1;
}

std::vector<int> CpuSet::numbers() const {
  std::vector<int> out;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    for (Word left = words_[i]; left != 0; left &= left - 1) {
      out.push_back(static_cast<int>(i) * kBits + std::countr_zero(left));
    }
  }
  return out;
}

std::string CpuSet::describe() const {
  const std::vector<int> all = numbers();
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t begin = i;
    while (i + 1 < all.size() && all[i + 1] == all[i] + 1) {
      ++i;
    }
    out += (out.empty() ? "" : ",") + std::to_string(all[begin]);
    out += i > begin ? "-" + std::to_string(all[i]) : "";
  }
  return out;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  words_.resize(std::min(words_.size(), other.words_.size()));
  for (std::size_t i = 0; i < words_.size(); ++i) {
    words_[i] &= other.words_[i];
  }
  trim_end();
  return *this;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (std::size_t i = 0; i < other.words_.size(); ++i) {
    words_[i] |= other.words_[i];
  }
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i) {
    words_[i] &= ~other.words_[i];
  }
  trim_end();
  return *this;
}

void CpuSet::trim_end() {
  while (!words_.empty() && words_.back() == 0) {
    words_.pop_back();
  }
}

}  // namespace muster
