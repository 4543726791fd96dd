// SPDX-License-Identifier: Apache-2.0
// Mesh: connections between every pair of ranks, with three lanes each: collective operations,
// point-to-point messages, and control. On the control lane a rank reports that it has failed or is
// leaving. If a rank closes the lane silently, it has died. Resource type; any thread may call
// failure() and report().
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
  // The address and ports on which a rank listens; other ranks connect to `address`.
  struct Place {
    std::string address;
    PortRange ports;
  };

  // `local` detects deaths on this host faster than sockets do. It must outlive the mesh.
  [[nodiscard]] static Result<std::unique_ptr<Mesh>> connect(const BootstrapContext& context,
                                                             const Place& place,
                                                             PeerWatch& local);
  ~Mesh() override;

  [[nodiscard]] int rank() const { return rank_; }

  [[nodiscard]] int size() const { return static_cast<int>(peers_.size()); }

  // The descriptor of a connection to `rank`.
  [[nodiscard]] int fd(int rank, Lane lane) const {
    return peers_[static_cast<std::size_t>(rank)].lanes[static_cast<std::size_t>(lane)].get();
  }

  [[nodiscard]] std::optional<Error> failure() const override;
  void report(const Error& error) override;

  // Records that this rank called the same operation as we did, for timeout errors.
  void seen(int rank, const Request& called);

  // The error that ends a wait for rank `missing` (-1 for no rank), if any.
  [[nodiscard]] std::optional<Error> look(const Step& step, int missing);
  // Call after a data or message connection to this rank was closed. Returns the reason if known.
  [[nodiscard]] Error closed(const Step& step, int rank);

 private:
  struct Peer {
    std::array<UniqueFd, kLanes> lanes;
    ControlMessages messages;
    Request last;  // last known operation of this rank; without pointers
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

  // The caller holds the mutex.
  void listen_to_all() const;
  void listen_to(std::size_t rank) const;
  void understand(std::size_t rank) const;
  void tell_all(const Error& error) const;
  void settle(const Error& error) const;
  void lost(std::size_t rank, int why) const;

  int rank_;
  PeerWatch& local_;
  LaneKey key_;        // this rank's key
  UniqueFd listener_;  // open only until all ranks are connected
  UniqueFd poller_;
  mutable std::mutex mutex_;
  mutable std::vector<Peer> peers_;
  mutable std::optional<Error> fault_;
  bool is_starting_ = true;
  mutable std::optional<Error> lost_;  // during startup: a peer closed its end silently
};

}  // namespace muster::collective
