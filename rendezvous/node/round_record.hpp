// SPDX-License-Identifier: Apache-2.0
// RoundRecord: the file in which a node records the rounds that it accepts, one for each job, host
// and local address, and its lock. Made before guard and agent part, so that the guard keeps the
// lock until the workers of a dead agent are gone. Resource; one thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "rendezvous/wire/memory.hpp"

#include <optional>
#include <string>

namespace muster {

// Several agents of one job on one host have a file each.
inline constexpr int kRecordSlotsMax = 64;

struct Recalled {
  std::optional<Memory> memory;
  std::string ignored{};  // why a record that exists is not used
  bool is_stale = false;  // because of its age alone, as after a job that was killed
};

class RoundRecord {
 public:
  // Without a record.
  RoundRecord() = default;

  // The first file `folder`/`name`.N that no agent and no guard holds, preferably one with a
  // record. A record that has not been touched for `fresh_for` is ignored: the other nodes have not
  // waited that long. On a network file system it is ignored if it was written a week ago. Off if
  // the folder cannot be used.
  [[nodiscard]] static RoundRecord open(const std::string& folder,
                                        const std::string& name,
                                        Duration fresh_for);

  [[nodiscard]] bool is_on() const { return lock_.get() >= 0; }

  // Why it is off.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

  [[nodiscard]] const std::string& path() const { return path_; }

  // What the agents before recorded.
  [[nodiscard]] Recalled read() const;

  // Replaces the record. `durable`: it survives a loss of power once this returns.
  [[nodiscard]] Result<void> write(Memory memory, bool durable) const;

  // Short enough for a record to stay fresh.
  [[nodiscard]] Duration touch_interval() const;

  // The job still runs. Not on network file systems, where it may block.
  void touch() const;

  // Removes the record. The slot stays ours. True if no record is left.
  bool discard() const;

  // Removes the record and gives up the slot.
  void remove() const;

 private:
  void take_slot(const std::string& folder);

  std::string name_;
  std::string path_;
  std::string trouble_;
  UniqueFd lock_;
  Duration fresh_for_{};
  bool is_on_network_ = false;
};

}  // namespace muster
