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

class RoundRecord {
 public:
  // Without a record.
  RoundRecord() = default;

  // The first file `folder`/`name`.N that no agent and no guard holds, rather one with a record. A
  // record that has not been touched for `fresh_for` is not read: the other nodes have not waited
  // so long. Without a folder that can be used: off.
  [[nodiscard]] static RoundRecord open(const std::string& folder,
                                        const std::string& name,
                                        Duration fresh_for);

  [[nodiscard]] bool is_on() const { return lock_.get() >= 0; }

  [[nodiscard]] const std::string& path() const { return path_; }

  // What the agents before recorded. None: nothing, or nothing that can be used.
  [[nodiscard]] std::optional<Memory> read() const;

  // In place of what is there. `durable`: it outlives a loss of power once this returns.
  [[nodiscard]] Result<void> write(const Memory& memory, bool durable) const;

  // The job still runs. Not on network file systems, where it may block.
  void touch() const;

  // True if no record is left.
  bool remove() const;

 private:
  std::string path_;
  UniqueFd lock_;
  Duration fresh_for_{};
  bool is_remote_ = false;
};

}  // namespace muster
