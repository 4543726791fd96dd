// SPDX-License-Identifier: Apache-2.0
// StartWatch: who dies while a communicator is made, before the ranks have anything by which they
// would see it. Ranks of this host are watched as processes; whoever sees a death, or cannot start,
// reports it through the store, where the others look between two waits. One thread.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"
#include "collective/bootstrap/bootstrap.hpp"
#include "collective/transport/peer_watch.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace muster::collective {

// The first card of each rank: its process, the namespace of that pid, and its host's identifier.
struct HostCard {
  pid_t pid = 0;
  std::uint64_t pid_space = 0;
  std::string host;

  // "PID/SPACE HOST".
  [[nodiscard]] std::string encode() const;
  // Empty: the text is no card.
  [[nodiscard]] static std::optional<HostCard> decode(std::string_view text);
  // Of this process.
  [[nodiscard]] static HostCard own(std::string host);
};

class StartWatch {
 public:
  // What is in the context outlives this.
  StartWatch(const BootstrapContext& context, HostCard own);

  // The cards of all ranks are there: those of this host are watched.
  void know(const std::vector<HostCard>& cards);

  // The ranks of this host share memory: it knows better than their processes, of which one that
  // has done its part may end.
  void rely_on(const PeerWatch& local);

  // The ranks meet as a part of others that can talk already: what ends those ends this start, and
  // all of them know it from there.
  void follow(const PeerWatch& parent) { parent_ = &parent; }

  // How long to wait between two looks.
  [[nodiscard]] Duration slice() const;

  // What ends the start; asks the store not more often than once a slice.
  [[nodiscard]] std::optional<Error> look();
  // After a connection to another rank was closed: its reason may come a moment later.
  [[nodiscard]] std::optional<Error> reason();

  // Reports to the others. What came from them, or from the store, is not repeated.
  void tell(const Error& error);

 private:
  struct Process {
    pid_t pid = 0;
    UniqueFd handle;
    bool is_dead = false;
  };

  void know(int rank, const HostCard& card);
  void look_for_neighbours();
  [[nodiscard]] std::optional<Error> dead();
  [[nodiscard]] std::optional<Error> reported();

  BootstrapContext context_;
  HostCard own_;
  std::map<int, Process> processes_;
  const PeerWatch* local_ = nullptr;
  const PeerWatch* parent_ = nullptr;
  bool know_all_ = false;
  bool is_reported_ = false;
  TimePoint next_ = {};
};

// What ends the start of a rank, as all ranks hear of it: what this rank cannot do (for want of
// memory or descriptors) is its own failure, and the text names the rank.
[[nodiscard]] Error start_failure(const Error& error, int rank);

// Gives each rank all ranks' host identifiers, in the order of ranks; from then on the watch knows
// who is on this one.
[[nodiscard]] Result<std::vector<std::string>> exchange_host_cards(const BootstrapContext& context,
                                                                   const HostCard& own);

}  // namespace muster::collective
