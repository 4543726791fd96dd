// SPDX-License-Identifier: Apache-2.0
// RecordKeeper: manages a running node's record of rounds. It reads the record at startup, writes
// it for the core, keeps it fresh, and removes it when the job ends normally. Part of
// RendezvousNode. Resource; one thread.
#pragma once

#include "base/log_level.hpp"
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

// The listening address of the previous agent if it is still an address of this host, otherwise
// empty. Needed because this node may lead before it has reached another node.
[[nodiscard]] std::string own_address_in(const std::optional<Memory>& memory);

class RecordKeeper {
 public:
  using Say = std::function<void(LogLevel, const std::string&)>;

  // If `record` is null or disabled, nothing is recalled or recorded.
  RecordKeeper(asio::io_context& loop, std::shared_ptr<const RoundRecord> record, Say say);

  [[nodiscard]] bool is_on() const;

  // Returns what previous agents recorded. From now on, the record is kept fresh.
  [[nodiscard]] std::optional<Memory> recall();

  // Returns RoundRecorded or RecordFailed. An accepted round is then on the disk, unless this is
  // the job's first record.
  [[nodiscard]] NodeEvent keep(const RecordRound& wanted);

  // Adds the secret of the job key to the current record, if there is one, and to all later
  // records.
  void keep_job_key(const std::string& secret);

  // Removes the record. Keeps it if the node failed, because a restarted node may need it.
  void end(const NodeEnd& how);

  void stop() { again_.cancel(); }

 private:
  void touch();
  [[nodiscard]] Result<void> write(bool durable);

  asio::steady_timer again_;
  std::shared_ptr<const RoundRecord> record_;
  Say say_;
  std::optional<Memory> kept_;
  std::string job_key_;
  bool recalled_ = false;
  bool replaces_ = false;  // there is an earlier record
  bool told_ = false;
};

}  // namespace muster
