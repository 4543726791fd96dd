// SPDX-License-Identifier: Apache-2.0
// FlightGroups: the positions of ranks in their collectives, as text and JSON. Groups ranks at the
// same position, lists those furthest behind first, and shows which ranks wait for which. Pure.
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
  std::map<std::string, hang::Evidence> groups_;  // holds the position of each rank in the group
};

}  // namespace muster
