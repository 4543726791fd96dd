// SPDX-License-Identifier: Apache-2.0
// Messages about the owner of a connection. The node whose agent serves the workers' store asks
// about each client from another host. The coordinator forwards question and answer. Values;
// encoded by wire/round_encoder, explained in round/client_vouching.hpp. PROTOCOL.md. Any thread.
#pragma once

#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>

namespace muster {

// A connection to the store: the numeric addresses of both ends, as seen by the store's host.
struct StoreClient {
  std::string host;  // of the client
  std::uint16_t port = 0;
  std::string store_host;
  std::uint16_t store_port = 0;
  bool operator==(const StoreClient&) const = default;
};

// Does this connection belong to one of your processes? The answer repeats `asker`, `sequence` and
// `asked`.
struct Vouch {
  NodeId asker = 0;            // the node with the store
  std::uint64_t sequence = 0;  // number of its question
  std::uint32_t asked = 0;     // number of nodes asked; set by the coordinator
  StoreClient client;
  bool operator==(const Vouch&) const = default;
};

enum class VouchAnswer : std::uint8_t {
  ours,             // of this job
  no_socket,        // this host has no such connection
  other_user,       // it belongs to another user
  other_process,    // it belongs to our user, but not to this job
  cannot_tell,      // the kernel does not report the owner
  unknown_address,  // from the coordinator: no member of the round has this address
  out_of_touch,     // from the coordinator: the only member with this address is not connected now
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
