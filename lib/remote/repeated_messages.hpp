// SPDX-License-Identifier: Apache-2.0
// RepeatedMessages: the launchers of a job all say how it ended, each for its own console. Where
// there is one console, what a machine says that another one has said already is left out: a line
// that begins as muster's messages do, with the indented lines behind it. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace muster {

class RepeatedMessages {
 public:
  // Appends to `out` those of `lines`, whole ones that machine `host` wrote, that are new.
  void take(std::size_t host, std::string_view lines, std::string& out);

  // We stop the launchers ourselves and have reported why: leave out their reports of our signal.
  void hide_interruption(std::string_view signal);

 private:
  [[nodiscard]] bool is_new(std::size_t host, std::string_view line);

  static constexpr std::size_t kRememberedMax = 1024;

  std::map<std::string, std::size_t, std::less<>> first_;  // who said it first
  std::set<std::size_t> skipping_;                         // in the middle of such a message
  std::string hidden_;                                     // how a message begins; empty: none
};

}  // namespace muster
