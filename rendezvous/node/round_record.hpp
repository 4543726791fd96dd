// SPDX-License-Identifier: Apache-2.0
// RoundRecord: the file in which a node records accepted rounds, and the file's lock. A file
// belongs to one job, host and local address, and to one agent at a time. main opens it before it
// splits into guard and agent, so the guard keeps the lock until the workers of a dead agent have
// exited. Resource; one thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "rendezvous/wire/memory.hpp"

#include <optional>
#include <string>

namespace muster {

// Limit on the number of records per job and host. Each agent of a job on a host has its own file.
inline constexpr int kRecordSlotsMax = 64;

struct Recalled {
  std::optional<Memory> memory;
  std::string ignored{};  // why an existing record is not used
  bool is_stale = false;  // ignored only because it is too old, for example if the job was killed
};

class RoundRecord {
 public:
  // Creates a disabled record.
  RoundRecord() = default;

  // Uses the first file `folder`/`name`.N that no agent or guard has locked, preferably one with a
  // record. A record that was not touched for `fresh_for` is ignored, because the other nodes no
  // longer wait for this node. On a network file system, a record is ignored after a week. The
  // result is disabled if the folder cannot be used.
  [[nodiscard]] static RoundRecord open(const std::string& folder,
                                        const std::string& name,
                                        Duration fresh_for);

  [[nodiscard]] bool is_on() const { return lock_.get() >= 0; }

  // Why the record is disabled.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

  [[nodiscard]] const std::string& path() const { return path_; }

  // Reads the record of previous agents.
  [[nodiscard]] Recalled read() const;

  // Replaces the record. With `durable`, it survives a power failure after this function returns.
  [[nodiscard]] Result<void> write(Memory memory, bool durable) const;

  // The interval at which to call touch() so that the record stays fresh.
  [[nodiscard]] Duration touch_interval() const;

  // Marks the job as running. Does nothing on a network file system, where touching could block.
  void touch() const;

  // Removes the record but keeps the slot. Returns true if no record remains.
  bool discard() const;

  // Removes the record and releases the slot.
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
