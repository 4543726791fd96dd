// SPDX-License-Identifier: Apache-2.0
// CpuSet: a set of CPUs, or of NUMA nodes, by their numbers in the kernel: read and written as in
// its files ("0-3,8"), and laid out as its system calls take it. Used by machine/ and process/.
// Value.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class CpuSet {
 public:
  using Word = unsigned long;
  static constexpr int kNumbersMax = 65'536;  // no kernel counts further; files may say anything

  CpuSet() = default;

  // The list format of /sys and /proc, with or without a newline. None: not such a list, a range
  // that runs backwards, a number of kNumbersMax or more.
  [[nodiscard]] static std::optional<CpuSet> parse(std::string_view list);

  // As sched_getaffinity fills it.
  [[nodiscard]] static CpuSet from_words(std::span<const Word> words);

  // 0 ≤ number < kNumbersMax.
  void add(int number);
  [[nodiscard]] bool contains(int number) const;

  [[nodiscard]] bool empty() const { return words_.empty(); }

  [[nodiscard]] int count() const;
  // The least number; -1 of an empty set.
  [[nodiscard]] int first() const;
  [[nodiscard]] std::vector<int> numbers() const;

  // "0-3,8"; empty for an empty set.
  [[nodiscard]] std::string describe() const;

  // For sched_setaffinity and set_mempolicy. The last word is never 0.
  [[nodiscard]] const std::vector<Word>& words() const { return words_; }

  CpuSet& operator&=(const CpuSet& other);
  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator-=(const CpuSet& other);

  friend CpuSet operator&(CpuSet one, const CpuSet& other) { return one &= other; }

  friend CpuSet operator|(CpuSet one, const CpuSet& other) { return one |= other; }

  friend CpuSet operator-(CpuSet one, const CpuSet& other) { return one -= other; }

  bool operator==(const CpuSet&) const = default;

 private:
  void trim_end();

  std::vector<Word> words_;
};

}  // namespace muster
