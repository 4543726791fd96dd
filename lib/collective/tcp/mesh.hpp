// SPDX-License-Identifier: Apache-2.0
// Mesh: connections between every pair of ranks, three lanes each: collective operations, messages
// of pairs, and control. On the control lane a rank says why it gives up, or that it leaves; where
// it closes without a word, its rank has died. Resource type; failure() and report() on any thread.
#pragma once

#include "base/fd.hpp"
#include "collective/bootstrap/bootstrap.hpp"
#include "collective/tcp/control_message.hpp"
#include "collective/tcp/half_open.hpp"
#include "collective/tcp/tcp_socket.hpp"
#include "collective/transport/peer_watch.hpp"
#include "collective/transport/step.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace muster::collective {

enum class Lane : std::uint8_t { data = 0, message = 1, control = 2 };

inline constexpr std::size_t kLanes = 3;

class Mesh final : public PeerWatch {
 public:
  // Where a rank listens: `address` is how the others reach it.
  struct Place {
    std::string address;
    PortRange ports;
  };

  // `local` knows of deaths on this host, sooner than sockets do; it outlives the mesh.
  [[nodiscard]] static Result<std::unique_ptr<Mesh>> connect(const BootstrapContext& context,
                                                             const Place& place,
                                                             PeerWatch& local);
  ~Mesh() override;

  [[nodiscard]] int rank() const { return rank_; }

  [[nodiscard]] int size() const { return static_cast<int>(peers_.size()); }

  // Of another rank.
  [[nodiscard]] int fd(int rank, Lane lane) const {
    return peers_[static_cast<std::size_t>(rank)].lanes[static_cast<std::size_t>(lane)].get();
  }

  [[nodiscard]] std::optional<Error> failure() const override;
  void report(const Error& error) override;

  // This rank has called it, as we have: for the report of a time-out.
  void seen(int rank, const Request& called);

  // What ends an operation that waits for `missing` (-1: for nobody).
  [[nodiscard]] std::optional<Error> look(const Step& step, int missing);
  // A data or message connection to this rank was closed: gives the reason, when it is known.
  [[nodiscard]] Error closed(const Step& step, int rank);

 private:
  struct Peer {
    std::array<UniqueFd, kLanes> lanes;
    ControlMessages messages;
    Request last;  // that it is known to have called; without pointers
    bool has_left = false;
    TimePoint left_at = {};
    bool is_gone = false;
  };

  Mesh(int rank, int size, PeerWatch& local);

  [[nodiscard]] Result<void> form(const BootstrapContext& context, const Place& place);
  [[nodiscard]] Result<void> reach_lower(const BootstrapContext& context,
                                         const std::vector<std::string>& cards,
                                         const std::string& ours);
  [[nodiscard]] Result<void> accept_higher(const BootstrapContext& context, int listener);
  [[nodiscard]] Result<void> await_welcomes(const BootstrapContext& context);
  [[nodiscard]] bool take_connection(HalfOpen::Greeting greeting);
  void welcome(std::size_t rank) const;
  [[nodiscard]] int first_without_welcome() const;
  void place(int rank, std::uint32_t lane, UniqueFd fd);
  [[nodiscard]] std::optional<Error> ended(const BootstrapContext& context) const;
  [[nodiscard]] Error not_come(const BootstrapContext& context) const;
  [[nodiscard]] Error not_reached(const BootstrapContext& context, int other, Error error) const;

  [[nodiscard]] std::optional<Error> look(const Step& step, int missing, Duration timeout);
  [[nodiscard]] std::string where(int rank, const Request& request) const;

  // With the mutex.
  void listen_to_all() const;
  void listen_to(std::size_t rank) const;
  void understand(std::size_t rank) const;
  void tell_all(const Error& error) const;
  void settle(const Error& error) const;
  void lost(std::size_t rank, int why) const;

  int rank_;
  PeerWatch& local_;
  LaneKey key_;        // of this rank
  UniqueFd listener_;  // only until all are connected
  UniqueFd poller_;
  mutable std::mutex mutex_;
  mutable std::vector<Peer> peers_;
  mutable std::optional<Error> fault_;
  bool is_starting_ = true;
  mutable std::optional<Error> lost_;  // at the start: closed without a word
};

}  // namespace muster::collective
