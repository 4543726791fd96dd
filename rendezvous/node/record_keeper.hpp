// SPDX-License-Identifier: Apache-2.0
// RecordKeeper: the record of rounds of a node that runs. Reads it at the start, writes what the
// core asks for, keeps it fresh, removes it at a good end. Part of RendezvousNode. Resource; one
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

// Where the agent before us listened, if that is still an address of this machine; else empty. We
// may lead before we have reached another node.
[[nodiscard]] std::string own_address_in(const std::optional<Memory>& memory);

class RecordKeeper {
 public:
  using Say = std::function<void(LogLevel, const std::string&)>;

  // Without a record, or with one that is off, nothing is recalled and nothing is recorded.
  RecordKeeper(asio::io_context& loop, std::shared_ptr<const RoundRecord> record, Say say);

  [[nodiscard]] bool is_on() const;

  // Of the agents before this one. From here on it stays fresh.
  [[nodiscard]] std::optional<Memory> recall();

  // RoundRecorded or RecordFailed.
  [[nodiscard]] NodeEvent keep(const RecordRound& wanted);

  // Removes the record, except that of a node that failed: it may be restarted and be needed.
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
