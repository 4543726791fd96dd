// SPDX-License-Identifier: Apache-2.0
// Faults: the random faults of a simulated world: which, when and where. Built from the options;
// used for one run.
#pragma once

#include "sim/nodes/nodes_world.hpp"
#include "sim/nodes/options.hpp"
#include "sim/random.hpp"

#include <cstdint>
#include <vector>

namespace muster::sim {

class Faults {
 public:
  Faults(NodesWorld& world, const NodesOptions& options, std::uint64_t seed);

  // Starts an agent in every place, some of them late.
  void start_all();
  // Runs the period of faults.
  void play();
  // Finally restarts dead agents, so that the job can continue.
  void put_right();

 private:
  void strike();
  void strike_with(Fault fault);
  void kill_agent();
  void strike_guard(std::uint32_t agent, bool kill);
  void lose_machine();
  void cut(bool one_way);
  void join();
  void start_when_allowed(std::uint32_t place);
  [[nodiscard]] bool may_found(std::uint32_t place) const;
  [[nodiscard]] bool remembers(std::uint32_t place) const;
  [[nodiscard]] bool founder_is_blank() const;
  [[nodiscard]] std::uint32_t some_agent();
  Duration length();
  Duration between(Duration low, Duration high);

  NodesWorld& world_;
  const NodesOptions& options_;
  Random random_;
};

}  // namespace muster::sim
