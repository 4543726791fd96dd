// SPDX-License-Identifier: Apache-2.0
// CpuSet: a set of CPUs or NUMA nodes, identified by kernel number, or of ranks. It is parsed and
// printed in the format of the kernel's files ("0-3,8") and stored in the layout of its system
// calls. Used by config/, machine/ and process/. Value.
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
  static constexpr int kNumbersMax = 65'536;  // above any kernel's limit; input is untrusted

  CpuSet() = default;

  // Parses the list format of /sys and /proc, with or without a newline. None if the text is not
  // such a list, a range is descending, or a number is kNumbersMax or more.
  [[nodiscard]] static std::optional<CpuSet> parse(std::string_view list);

  // `words` is a mask as filled in by sched_getaffinity.
  [[nodiscard]] static CpuSet from_words(std::span<const Word> words);

  // Requires 0 ≤ number < kNumbersMax.
  void add(int number);
  [[nodiscard]] bool contains(int number) const;

  [[nodiscard]] bool empty() const { return words_.empty(); }

  [[nodiscard]] int count() const;
  // The smallest number, or -1 if the set is empty.
  [[nodiscard]] int first() const;
  [[nodiscard]] std::vector<int> numbers() const;

  // Formats the set as "0-3,8"; empty if the set is empty.
  [[nodiscard]] std::string describe() const;

  // The mask for sched_setaffinity and set_mempolicy. The last word is never 0.
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
