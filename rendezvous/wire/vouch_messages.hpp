// SPDX-License-Identifier: Apache-2.0
// Messages about the owner of a connection. The node whose agent serves the workers' store sends a
// query about each client from another host. The coordinator forwards query and answer. Values;
// encoded by wire/round_encoder, explained in round/questions/client_vouching.hpp and PROTOCOL.md.
// Thread-safe.
#pragma once

#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>

namespace muster {

// A connection to the store: the numeric addresses of both ends, as seen on the store's host.
struct StoreClient {
  std::string host;  // the client's address
  std::uint16_t port = 0;
  std::string store_host;
  std::uint16_t store_port = 0;
  bool operator==(const StoreClient&) const = default;
};

// Asks whether this connection belongs to one of the receiver's processes. The answer repeats
// `asker`, `sequence` and `asked`.
struct Vouch {
  NodeId asker = 0;            // the node with the store
  std::uint64_t sequence = 0;  // number of the asker's query
  std::uint32_t asked = 0;     // number of nodes queried; set by the coordinator
  StoreClient client;
  bool operator==(const Vouch&) const = default;
};

enum class VouchAnswer : std::uint8_t {
  ours,             // the connection belongs to this job
  no_socket,        // this host has no such connection
  other_user,       // the connection belongs to another user
  other_process,    // the connection belongs to our user, but not to this job
  cannot_tell,      // the kernel does not report the owner
  unknown_address,  // from the coordinator: no member of the round has this address
  out_of_touch,     // from the coordinator: a member with this address is not connected
};

struct Vouched {
  NodeId asker = 0;
  std::uint64_t sequence = 0;
  std::uint32_t asked = 0;
  VouchAnswer answer = VouchAnswer::no_socket;
  std::string node;  // name of the answering node, for display
  bool operator==(const Vouched&) const = default;
};

}  // namespace muster
