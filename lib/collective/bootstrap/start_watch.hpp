// SPDX-License-Identifier: Apache-2.0
// StartWatch: detects deaths while a communicator is being created, before the ranks have shared
// memory or connections. It watches the processes of ranks on this host. A rank that detects a
// death or cannot start reports this through the store, and the other ranks poll the store while
// they wait. One thread.
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

// The first record ("card") that each rank publishes in the store: its pid, its pid namespace and
// its host's identifier.
struct HostCard {
  pid_t pid = 0;
  std::uint64_t pid_space = 0;
  std::string host;

  // Formats the card as "PID/SPACE HOST"; SPACE is the pid namespace.
  [[nodiscard]] std::string encode() const;
  // Empty if the text cannot be parsed as a card.
  [[nodiscard]] static std::optional<HostCard> decode(std::string_view text);
  // The card of this process.
  [[nodiscard]] static HostCard own(std::string host);
};

class StartWatch {
 public:
  // Everything that the context refers to must outlive this object.
  StartWatch(const BootstrapContext& context, HostCard own);

  // Call once the cards of all ranks have arrived. Starts watching the ranks on this host.
  void know(const std::vector<HostCard>& cards);

  // Call once the ranks on this host share memory. From then on, deaths are detected through that
  // memory and not by watching processes, because a rank that has finished its part of the startup
  // may exit.
  void rely_on(const PeerWatch& local);

  // An error that this watch reports makes the startup fail too. The watch must report it to all
  // ranks. Used if the ranks are a subset of a connected communicator, and if the launcher reports
  // lost ranks.
  void follow(const PeerWatch& parent) { parent_ = &parent; }

  // Interval between two checks.
  [[nodiscard]] Duration slice() const;

  // The error that makes the startup fail, if any. Queries the store at most once per slice.
  [[nodiscard]] std::optional<Error> look();
  // Call after another rank closed a connection, because the reason may arrive slightly later.
  [[nodiscard]] std::optional<Error> reason();

  // Reports an error to the other ranks, unless it came from them or from the store.
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

// The startup error as all ranks report it. If this rank itself cannot start (for example,
// out of memory or descriptors), the result is peer_failed with this rank, and the text names it.
[[nodiscard]] Error start_failure(const Error& error, int rank);

// Returns the host identifiers of all ranks, in rank order. From then on, `watch` monitors the
// ranks on this host.
[[nodiscard]] Result<std::vector<std::string>> exchange_host_cards(const BootstrapContext& context,
                                                                   const HostCard& own);

}  // namespace muster::collective
