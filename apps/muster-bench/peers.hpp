// SPDX-License-Identifier: Apache-2.0
// Whom we measure beside: the paths of the programs that are there, an empty path for those that
// are not (their rows stay, marked "not installed"). Made by main, read by all blocks. Value.
#pragma once

#include "base/environ.hpp"
#include "base/time.hpp"

#include <string>

namespace muster::bench {

struct Peers {
  Environ environ;     // what started programs get
  std::string muster;  // our own three
  std::string muster_store;
  std::string floor;
  std::string simulator;  // muster-sim of the same build
  std::string ranks;      // of the collective block: ours, and the peers' of the same build
  std::string ranks_open_mpi;
  std::string ranks_mpich;
  std::string ranks_gloo;  // a script for torch_python
  std::string self;        // this program, for its echo server
  std::string hydra;
  std::string open_mpi;
  std::string torchrun;
  std::string torch_python;
  std::string ft_launcher;
  std::string redis;
  std::string tee;
  std::string cat;
};

struct Where {
  std::string muster;  // as given by the user; programs beside this one when empty
  std::string muster_store;
  std::string torch_env;  // folder of a virtual environment
  std::string ft_env;
};

[[nodiscard]] Peers find_peers(const Where& where, const Environ& environ);

// How a block measures; smaller for a quick look.
struct Effort {
  int rounds = 5;
  int slow_rounds = 5;       // for peers that need seconds
  TimePoint repeat_until{};  // later nothing is repeated
  int repeats = 2;           // of a column that others disturbed
  double seconds = 0.3;      // of one measured rate
  std::size_t storm = 10'000;
  long long flood_mib = 32;  // written by each rank of the log pump
};

}  // namespace muster::bench
