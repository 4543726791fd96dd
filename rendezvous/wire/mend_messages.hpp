// SPDX-License-Identifier: Apache-2.0
// Messages for replacing failed ranks while the other workers of the round continue to run
// (--restart=rank). Values; encoded by wire/round_encoder, explained in PROTOCOL.md. Thread-safe.
#pragma once

#include "rendezvous/wire/node_messages.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Asks the coordinator to replace these ranks of the sender. A later request of the same node
// replaces earlier ones. Sent again after each Welcome until it is answered by Mend or NoMend.
struct Lacking {
  RoundId round;
  std::uint64_t number = 0;  // of this request; grows
  std::vector<std::int32_t> ranks;
  bool holds_state = false;    // another rank on this node has the job's state
  bool out_of_memory = false;  // the kernel killed the failed rank to free memory
  bool tells_step = false;
  std::uint64_t step = 0;  // the highest step that a rank on this node has reported
  Failed cause;
  // Not empty: the sender cannot take part in the current mend, for this reason. Then nothing else
  // is set, and the job restarts all workers.
  std::string obstacle;
  bool operator==(const Lacking&) const = default;
};

// All of the sender's ranks have the job's state in this epoch.
struct Mended {
  RoundId round;
  std::uint64_t epoch = 0;
  bool operator==(const Mended&) const = default;
};

// The round continues under a new epoch, because these ranks are being replaced.
struct Mend {
  RoundId round;
  Mends mends{};
  NodeId asker = 0;
  std::uint64_t number = 0;  // of the asker's request
  std::vector<std::int32_t> ranks{};
  std::int32_t cause = 0;  // the rank whose failure is the reason
  std::string reason{};    // one sentence, for users
  bool operator==(const Mend&) const = default;
};

// The ranks cannot be replaced. The receiver reports the failure with Failed.
struct NoMend {
  RoundId round;
  std::uint64_t number = 0;
  std::string reason;  // empty if the job does not restart at all
  bool operator==(const NoMend&) const = default;
};

}  // namespace muster
