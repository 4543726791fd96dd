// SPDX-License-Identifier: Apache-2.0
// RecordKeeper: the record of rounds of a running node. Reads it at startup, writes it for the
// core, keeps it fresh, and removes it at a regular end. Part of RendezvousNode. Resource; one
// thread.
#pragma once

#include "base/log.hpp"
#include "rendezvous/node/node_owner.hpp"
#include "rendezvous/node/round_record.hpp"
#include "rendezvous/round/node_events.hpp"

#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace asio {
class io_context;
}

namespace muster {

// The listening address of the previous agent, if it is still an address of this host; else empty.
// We may lead before we have reached another node.
[[nodiscard]] std::string own_address_in(const std::optional<Memory>& memory);

class RecordKeeper {
 public:
  using Say = std::function<void(LogLevel, const std::string&)>;

  // Without a record, or with a disabled one, nothing is recalled or recorded.
  RecordKeeper(asio::io_context& loop, std::shared_ptr<const RoundRecord> record, Say say);

  [[nodiscard]] bool is_on() const;

  // The memory of previous agents. Keeps the record fresh from now on.
  [[nodiscard]] std::optional<Memory> recall();

  // Returns RoundRecorded or RecordFailed.
  [[nodiscard]] NodeEvent keep(const RecordRound& wanted);

  // Removes the record, unless the node failed: it may be restarted and need the record.
  void end(const NodeEnd& how);

  void stop() { again_.cancel(); }

 private:
  void touch();

  asio::steady_timer again_;
  std::shared_ptr<const RoundRecord> record_;
  Say say_;
  bool recalled_ = false;
  bool told_ = false;
};

}  // namespace muster
