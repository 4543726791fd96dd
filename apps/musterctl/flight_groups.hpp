// SPDX-License-Identifier: Apache-2.0
// FlightGroups: positions of ranks in their groups, for people and for programs: those that are in
// the same place together, those that are furthest behind first, and who waits for whom. Pure.
#pragma once

#include "hang/evidence.hpp"

#include <map>
#include <string>
#include <vector>

namespace muster {

class FlightGroups {
 public:
  void add(int rank, hang::Position position);

  [[nodiscard]] bool empty() const { return groups_.empty(); }

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json(const std::vector<std::string>& gaps) const;

 private:
  std::map<std::string, hang::Evidence> groups_;  // of each rank its position there
};

}  // namespace muster
