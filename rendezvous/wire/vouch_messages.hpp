// SPDX-License-Identifier: Apache-2.0
// Whose is this connection? Asked by the node whose agent serves the workers' store, about each
// client from another machine; the coordinator passes question and answer on. Values; the bytes are
// made by wire/round_encoder, the meaning is in round/questions/client_vouching.hpp. PROTOCOL.md.
// Any thread.
#pragma once

#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>

namespace muster {

// A connection to the store by the addresses of both ends, numeric, as the store's machine sees
// them.
struct StoreClient {
  std::string host;  // of the client
  std::uint16_t port = 0;
  std::string store_host;
  std::uint16_t store_port = 0;
  bool operator==(const StoreClient&) const = default;
};

// Does this connection belong to a process of yours? Whoever gets it sends `asker`, `sequence` and
// `asked` back.
struct Vouch {
  NodeId asker = 0;            // whose store it is
  std::uint64_t sequence = 0;  // of its questions
  std::uint32_t asked = 0;     // nodes that are asked; the coordinator fills it in
  StoreClient client;
  bool operator==(const Vouch&) const = default;
};

enum class VouchAnswer : std::uint8_t {
  ours,             // of this job
  no_socket,        // this machine has no such connection
  other_user,       // it is another user's
  other_process,    // it is our user's, but not of this job
  cannot_tell,      // the kernel does not say whose it is
  unknown_address,  // from the coordinator: no member of the round has this address
  out_of_touch,     // from the coordinator: the only one that has it does not follow it just now
};

struct Vouched {
  NodeId asker = 0;
  std::uint64_t sequence = 0;
  std::uint32_t asked = 0;
  VouchAnswer answer = VouchAnswer::no_socket;
  std::string node;  // the name of who answers, for people
  bool operator==(const Vouched&) const = default;
};

}  // namespace muster
